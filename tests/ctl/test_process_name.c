/* test_process_name.c -- ctl/process/process_name: which script a command line runs. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "ctl/channel/target.h"

Test(process_name, finds_the_script_of_an_interpreter)
{
	const struct {
		const char *command, *script;
	} rows[] = {
		{"python3 train.py", "train.py"},
		{"/usr/bin/python3.11 -u /srv/jobs/train.py --epochs 3", "train.py"},
		{"python3 -W ignore -X dev train.py", "train.py"},
		{"python3 -Wignore train.py", "train.py"},
		{"python3 -m http.server 8000", "http.server"},
		{"python3 -um package.main", "package.main"},
		{"python3 -c print(1) x.py", ""},
		{"python3", ""},
		{"python3 -m", ""},
		{"python3 -", ""},
		{"ruby -I lib app.rb", "app.rb"},
		{"node -r ./hook.js server.js", "server.js"},
		{"node --import ./hook.mjs --inspect /srv/server.js", "server.js"},
		{"java -Xmx1g -jar /opt/app.jar --port 80", "app.jar"},
		{"java -cp a.jar:b.jar -Dx=y com.example.Main", "com.example.Main"},
		{"java -version", ""},
		{"perl -I lib -w tool.pl", "tool.pl"},
		{"sh -c sleep 1", ""},
		{"bash ./start.sh", "start.sh"},
		{"shred file.py", ""},
		{"pythonic file.py", ""},
		{"sleep 60", ""},
		{"", ""},
	};
	char script[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		mt_process_script(rows[i].command, script, sizeof(script));
		cr_expect_str_eq(script, rows[i].script, "%s: %s", rows[i].command, script);
	}
}

Test(process_name, a_list_shows_the_script_and_its_arguments)
{
	const struct {
		const char *command, *title;
	} rows[] = {
		{"python3 train.py", "train.py"},
		{"/usr/bin/python3.11 -u /srv/jobs/train.py --epochs 3", "train.py --epochs 3"},
		{"/usr/bin/python3 -m flwr.server.app --fleet 4", "flwr.server.app --fleet 4"},
		{"python3 -mtimeit x", "timeit x"},
		{"/usr/bin/python3 /usr/bin/gunicorn -w 4 app:main", "gunicorn -w 4 app:main"},
		{"/usr/bin/python3 -c print(1)", "python3 -c print(1)"},
		{"/usr/bin/python3", "python3"},
		{"python3 -m", "python3 -m"},
		{"java -jar /opt/app.jar --port 80", "app.jar --port 80"},
		{"/usr/sbin/redis-server *:6379", "redis-server *:6379"},
		{"nginx: worker process", "nginx: worker process"},
		{"/srv/dir/", "/srv/dir/"},
		{"", ""},
	};
	char title[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		mt_process_title(rows[i].command, title, sizeof(title));
		cr_expect_str_eq(title, rows[i].title, "%s: %s", rows[i].command, title);
	}
}

Test(process_name, a_process_has_the_names_of_its_command_and_of_its_script)
{
	struct mt_process process = {.comm = "pt_main_thread",
				     .command = "/opt/venv/bin/python3 jobs/train.py"};

	cr_expect(mt_process_has_name(&process, "pt_main_thread"));
	cr_expect(mt_process_has_name(&process, "python3"));
	cr_expect(mt_process_has_name(&process, "train.py"));
	cr_expect_not(mt_process_has_name(&process, "train"));
	cr_expect_not(mt_process_has_name(&process, "jobs/train.py"));
	cr_expect_not(mt_process_has_name(&process, ""));
}
