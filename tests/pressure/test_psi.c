/* test_psi.c -- pressure/psi: the kernel's figures, and systemd's protocol with files, pipes and
 * sockets of our own. */
#include "sense_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "sys/os.h"
#include "core/cgroup_path.h"
#include "pressure/psi.h"

#define TEXT(some, full)                                                                           \
	"some avg10=0.12 avg60=3.00 avg300=0.00 total=" #some                                      \
	"\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=" #full "\n"

static struct mt_launch_env facts;

static void begin_psi(void)
{
	begin();
	memset(&facts, 0, sizeof(facts));
	mt_psi_fork_child();
}

TestSuite(psi, .init = begin_psi, .fini = end);

static struct mt_psi_sample look_of(const char *group)
{
	struct mt_psi_sample out;

	memset(&out, 0x5a, sizeof(out));
	mt_psi_read(root, group, &facts, &out);
	return out;
}

static struct mt_psi_sample look(void)
{
	return look_of("");
}

static bool has_event(void)
{
	return look().event;
}

static unsigned open_descriptors(void)
{
	unsigned count = 0;

	for (int fd = 0; fd < 200; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* ---- figures ---- */

Test(psi, the_total_is_that_of_its_line)
{
	static const struct {
		const char *text, *line;
		bool valid;
		uint64_t total;
	} rows[] = {
		{TEXT(123, 45), "some", true, 123},
		{TEXT(123, 45), "full", true, 45},
		{"full avg10=0.00 total=45\nsome avg10=0.00 total=9", "some", true, 9},
		{"some total=1", "some", true, 1},
		{"some total=18446744073709551615\n", "some", true, UINT64_MAX},
		{"some avg10=0.00 total=5 more=1\n", "some", true, 5},
		{"some avg10=0.00\nfull avg10=0.00 total=45\n", "some", false, 0},
		{"some avg10=0.00 total=\n", "some", false, 0},
		{"some avg10=0.00 total=-1\n", "some", false, 0},
		{"some avg10=0.00 total=1x\n", "some", false, 0},
		{"some avg10=0.00 subtotal=1\n", "some", false, 0},
		{"something total=4\n", "some", false, 0},
		{" some total=4\n", "some", false, 0},
		{"some", "some", false, 0},
		{"\n\n", "some", false, 0},
		{"", "some", false, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t total = 42;

		cr_expect_eq(mt_psi_parse(rows[i].text, rows[i].line, &total), rows[i].valid,
			     "'%s'", rows[i].text);
		cr_expect_eq(total, rows[i].valid ? rows[i].total : 42, "'%s'", rows[i].text);
	}
}

Test(psi, the_figures_of_the_group_are_taken_before_the_machines)
{
	struct mt_psi_sample out;

	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/group/memory.pressure", TEXT(7, 3));
	out = look_of(in_root("/group"));
	cr_expect(out.known && !out.event && !out.event_is_psi);
	cr_expect_eq(out.some_us, 7);
	cr_expect_eq(out.full_us, 3);
	cr_expect_eq(look().some_us, 1000);
	cr_expect_eq(look().full_us, 500);
}

Test(psi, where_the_group_tells_nothing_the_machine_does)
{
	put("/proc/pressure/memory", TEXT(1000, 500));
	cr_expect_eq(look_of(in_root("/none")).some_us, 1000);
	put("/empty/memory.pressure", "%s", "");
	cr_expect_eq(look_of(in_root("/empty")).some_us, 1000);
	put("/rubbish/memory.pressure", "what total\n");
	cr_expect_eq(look_of(in_root("/rubbish")).some_us, 1000);
	/* As with PSI that is switched off in the kernel: it opens, and reading is an error. */
	put("/off/memory.pressure/x", "%s", "");
	cr_expect_eq(look_of(in_root("/off")).some_us, 1000);
}

/* Taken for one that has risen, the machine's total would be hours of waiting all at once. */
Test(psi, totals_of_another_file_are_unknown_for_one_look)
{
	put("/proc/pressure/memory", TEXT(9000000000, 500));
	put("/group/memory.pressure", TEXT(7, 3));
	put("/other/memory.pressure", TEXT(8000000000, 3));
	cr_expect(look_of(in_root("/group")).known);
	cr_expect_not(look_of(in_root("/other")).known, "moved");
	cr_expect(look_of(in_root("/other")).known);
	drop("/other");
	cr_expect_not(look_of(in_root("/other")).known, "the machine's");
	cr_expect(look_of(in_root("/other")).known);
}

Test(psi, a_kernel_without_it_is_nothing_known)
{
	struct mt_psi_sample out = look();

	cr_expect_not(out.known || out.event || out.event_is_psi);
	cr_expect(out.some_us == 0 && out.full_us == 0);
	put("/proc/pressure/memory/x", "%s", "");
	cr_expect_not(look().known);
}

/* ---- base64 ---- */

Test(psi, base64_is_decoded_strictly)
{
	static const struct {
		const char *text, *bytes;
		int length;
	} rows[] = {
		{"", "", 0},
		{"Zg==", "f", 1},
		{"Zm8=", "fo", 2},
		{"Zm9v", "foo", 3},
		{"Zm9vYmFy", "foobar", 6},
		{"c29tZSAyMDAwMDAgMjAwMDAwMAA=", "some 200000 2000000\0", 20},
		{"AAAA", "\0\0\0", 3},
		{"+/+/", "\xfb\xff\xbf", 3},
		{"Zg=", NULL, -1},
		{"Zg", NULL, -1},
		{"Z", NULL, -1},
		{"=", NULL, -1},
		{"==", NULL, -1},
		{"====", NULL, -1},
		{"Z===", NULL, -1},
		{"Zg==Zg==", NULL, -1},
		{"Z=g=", NULL, -1},
		{"=Zg=", NULL, -1},
		{"Zm9 ", NULL, -1},
		{"Zm9v\n", NULL, -1},
		{"Zm9-", NULL, -1},
		{"Zm9_", NULL, -1},
		{"Zm9\xff", NULL, -1},
		{"Zh==", NULL, -1},
		{"Zm9=", NULL, -1}, /* bits set behind the end */
	};
	unsigned char out[64];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(mt_psi_base64(rows[i].text, out, sizeof(out)), rows[i].length, "'%s'",
			     rows[i].text);
		if (rows[i].length > 0)
			cr_expect_eq(memcmp(out, rows[i].bytes, (size_t)rows[i].length), 0, "'%s'",
				     rows[i].text);
	}
	cr_expect_eq(mt_psi_base64("Zm9v", out, 3), 3);
	cr_expect_eq(mt_psi_base64("Zm9v", out, 2), -1, "no room");
}

Test(psi, base64_of_any_rubbish_stays_within_its_room)
{
	unsigned seed = 1;

	for (int turn = 0; turn < 200000; turn++) {
		unsigned char out[8 + 1];
		char text[24];
		size_t length = (size_t)(rand_r(&seed) % 17);

		for (size_t i = 0; i < length; i++)
			text[i] = turn % 2 ? (char)(rand_r(&seed) % 255 + 1)
					   : "ABCDwxyz019+/=="[rand_r(&seed) % 15];
		text[length] = 0;
		out[8] = 0x5a;
		cr_assert_leq(mt_psi_base64(text, out, 8), 8);
		cr_assert_eq(out[8], 0x5a);
	}
}

/* ---- a pipe ---- */

static int make_fifo(void)
{
	int fd;

	cr_assert_eq(mkfifo(in_root("/fifo"), 0600), 0);
	strcpy(facts.pressure_watch, "/fifo");
	cr_expect_not(has_event(), "it is opened, and says nothing yet");
	fd = open(in_root("/fifo"), O_RDWR | O_NONBLOCK | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	return fd;
}

Test(psi, a_pipe_tells_of_pressure_once_for_all_that_is_in_it)
{
	struct mt_psi_sample out;
	char byte;
	int fd = make_fifo();

	put("/proc/pressure/memory", TEXT(1000, 500));
	cr_assert_eq(write(fd, "xxxxxxxxxx", 10), 10);
	out = look();
	cr_expect(out.event && !out.event_is_psi);
	cr_expect_eq(out.some_us, 1000, "there is no other figure to be had");
	cr_expect_not(has_event());
	cr_expect_eq(read(fd, &byte, 1), -1, "it was drained");
	cr_assert_eq(write(fd, "x", 1), 1);
	cr_expect(has_event());
	close(fd);
}

Test(psi, a_pipe_survives_its_writers)
{
	for (int turn = 0; turn < 3; turn++) {
		int fd;

		if (turn == 0) {
			close(make_fifo());
			cr_expect_not(has_event());
		}
		fd = open(in_root("/fifo"), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
		cr_assert_geq(fd, 0);
		cr_assert_eq(write(fd, "1\n", 2), 2);
		close(fd);
		cr_expect(has_event());
		cr_expect_not(has_event());
	}
}

Test(psi, a_full_pipe_is_emptied_and_does_not_hold_us)
{
	static char block[4096];
	int fd = make_fifo();
	size_t looks = 0;

	while (write(fd, block, sizeof(block)) > 0)
		;
	cr_assert_eq(errno, EAGAIN);
	while (has_event())
		cr_assert_lt(++looks, 3);
	cr_expect_geq(looks, 1);
	close(fd);
}

Test(psi, what_the_manager_wants_to_read_is_written_once_and_is_no_event)
{
	char got[64] = "";
	int manager;

	cr_assert_eq(mkfifo(in_root("/fifo"), 0600), 0);
	manager = open(in_root("/fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	strcpy(facts.pressure_watch, "/fifo");
	strcpy(facts.pressure_write, "Zm9vYmFy");
	cr_expect_not(has_event());
	cr_expect_eq(read(manager, got, sizeof(got)), 6);
	cr_expect_str_eq(got, "foobar");
	cr_expect_not(has_event());
	cr_expect_eq(read(manager, got, sizeof(got)), -1);
	mt_psi_fork_child();
	cr_expect_not(has_event());
	cr_expect_not(has_event(), "nobody has read them: its own bytes come back to it");
	mt_psi_fork_child();
	cr_expect_not(has_event());
	cr_assert_eq(write(open(in_root("/fifo"), O_RDWR), "go", 2), 2);
	cr_expect(has_event(), "more than its own bytes");
	cr_assert_eq(write(open(in_root("/fifo"), O_RDWR), "foobar", 6), 6);
	cr_expect(has_event(), "not its own any more");
	close(manager);
}

Test(psi, nothing_is_written_into_a_pipe_that_nobody_reads)
{
	cr_assert_eq(mkfifo(in_root("/fifo"), 0600), 0);
	strcpy(facts.pressure_watch, "/fifo");
	strcpy(facts.pressure_write, "Zm9vYmFy");
	cr_expect_not(has_event());
	cr_expect_not(has_event());
	close(open(in_root("/fifo"), O_RDWR));
}

/* ---- a socket ---- */

static int listen_at(const char *path, int backlog)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s", in_root(path));
	cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert(backlog < 0 || listen(fd, backlog) == 0);
	strcpy(facts.pressure_watch, path);
	return fd;
}

Test(psi, a_socket_is_connected_to_and_told_what_was_asked)
{
	char got[64] = "";
	int listener = listen_at("/socket", 5);
	int peer;

	strcpy(facts.pressure_write, "Zm9vYmFy");
	cr_expect_not(has_event());
	peer = accept(listener, NULL, NULL);
	cr_assert_geq(peer, 0);
	cr_expect_eq(read(peer, got, sizeof(got)), 6);
	cr_expect_str_eq(got, "foobar");
	cr_assert_eq(write(peer, "pressure", 8), 8);
	cr_expect(has_event());
	cr_expect_not(has_event());
	cr_assert_eq(write(peer, "p", 1), 1);
	cr_expect(has_event());
	cr_expect_eq(recv(peer, got, sizeof(got), MSG_DONTWAIT), -1, "written once");
	close(peer);
	close(listener);
}

Test(psi, a_socket_that_is_closed_ends_the_watch_quietly)
{
	unsigned before = open_descriptors();
	int listener = listen_at("/socket", 5);
	int peer;

	cr_expect_not(has_event());
	peer = accept(listener, NULL, NULL);
	cr_assert_eq(write(peer, "last", 4), 4);
	close(peer);
	cr_expect(has_event(), "what was said last still counts");
	for (int i = 0; i < 3; i++)
		cr_expect_not(has_event());
	cr_expect_eq(accept(listener, NULL, NULL), -1, "and nobody calls again");
	close(listener);
	cr_expect_eq(open_descriptors(), before);
}

Test(psi, rubbish_to_write_is_not_written)
{
	char got[64];
	int listener = listen_at("/socket", 5);
	int peer;

	strcpy(facts.pressure_write, "not base64!");
	cr_expect_not(has_event());
	peer = accept(listener, NULL, NULL);
	cr_expect_eq(recv(peer, got, sizeof(got), MSG_DONTWAIT), -1);
	cr_expect_eq(errno, EAGAIN);
	cr_assert_eq(write(peer, "p", 1), 1);
	cr_expect(has_event(), "and yet it is watched");
	close(peer);
	close(listener);
}

Test(psi, a_socket_that_nobody_listens_at_is_not_watched)
{
	unsigned before;
	int deaf = listen_at("/socket", -1);

	before = open_descriptors();
	cr_expect_not(has_event());
	cr_expect_eq(open_descriptors(), before);
	close(deaf);
}

Test(psi, a_listener_with_a_full_queue_is_tried_again)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = listen_at("/socket", 0), peer, callers[8], count = 0;

	snprintf(address.sun_path, sizeof(address.sun_path), "%.80s", in_root("/socket"));
	for (; count < 8; count++) {
		callers[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		if (connect(callers[count], (const struct sockaddr *)&address, sizeof(address)) !=
		    0)
			break;
	}
	cr_assert(count < 8 && errno == EAGAIN);
	cr_expect_not(has_event(), "and it does not wait");
	for (int i = 0; i < count; i++)
		close(accept(listener, NULL, NULL));
	cr_expect_not(has_event());
	peer = accept(listener, NULL, NULL);
	cr_assert_geq(peer, 0);
	cr_assert_eq(write(peer, "p", 1), 1);
	cr_expect(has_event());
	close(peer);
	for (int i = 0; i <= count; i++)
		close(callers[i]);
	close(listener);
}

/* ---- a file ---- */

Test(psi, totals_are_those_of_the_watched_file)
{
	struct mt_psi_sample out;

	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/group/memory.pressure", TEXT(70, 30));
	put("/watched", TEXT(7, 3));
	strcpy(facts.pressure_watch, "/watched");
	out = look_of(in_root("/group"));
	cr_expect(out.known && out.event_is_psi && !out.event);
	cr_expect_eq(out.some_us, 7);
	put("/watched", TEXT(8, 3));
	cr_expect_eq(look_of(in_root("/group")).some_us, 8);
	put("/watched", "gone bad\n");
	out = look_of(in_root("/group"));
	cr_expect(!out.known && !out.event_is_psi);
	out = look_of(in_root("/group"));
	cr_expect(out.known);
	cr_expect_eq(out.some_us, 70);
}

Test(psi, only_files_of_the_kernel_are_written_to)
{
	char text[256];

	put("/watched", TEXT(7, 3));
	strcpy(facts.pressure_watch, "/watched");
	strcpy(facts.pressure_write, "Zm9vYmFy");
	cr_expect(look().event_is_psi);
	cr_assert_gt(mt_os_read_file(in_root("/watched"), text, sizeof(text)), 0);
	cr_expect_str_eq(text, TEXT(7, 3));
}

Test(psi, what_cannot_be_watched_is_not)
{
	static const char *const names[] = {"/dev/null", "/nowhere", "watched",
					    "/folder",   "",         "/letter"};
	unsigned before = open_descriptors();
	char text[64];

	put("/proc/pressure/memory", TEXT(1000, 500));
	put("/folder/x", "%s", "");
	put("/letter", "Dear Sir,\n");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		mt_psi_fork_child();
		strcpy(facts.pressure_watch, names[i]);
		strcpy(facts.pressure_write, "Zm9vYmFy");
		for (int turn = 0; turn < 2; turn++) {
			struct mt_psi_sample out = look();

			cr_expect(out.known && !out.event && !out.event_is_psi, "%s", names[i]);
			cr_expect_eq(out.some_us, 1000, "%s", names[i]);
		}
		cr_expect_eq(open_descriptors(), before, "%s", names[i]);
	}
	cr_assert_gt(mt_os_read_file(in_root("/letter"), text, sizeof(text)), 0);
	cr_expect_str_eq(text, "Dear Sir,\n");
}

Test(psi, a_path_that_depends_on_the_folder_is_not_watched)
{
	struct mt_psi_sample out;

	put("/watched", TEXT(7, 3));
	strcpy(facts.pressure_watch, "watched");
	cr_assert_eq(chdir(root), 0);
	mt_psi_read("", "", &facts, &out);
	cr_expect_not(out.event_is_psi);
}

Test(psi, the_real_dev_null_says_do_not_watch)
{
	unsigned before = open_descriptors();
	struct mt_psi_sample out;

	strcpy(facts.pressure_watch, "/dev/null");
	mt_psi_read("", "", &facts, &out);
	cr_expect_not(out.event || out.event_is_psi);
	cr_expect_eq(open_descriptors(), before);
}

/* The kernel's own file, where there is one. A trigger may tell once falsely, but not at every
 * look. */
Test(psi, a_trigger_is_set_in_the_kernels_file)
{
	struct mt_psi_sample out;
	unsigned events = 0;

	mt_psi_read("", "", &facts, &out);
	if (!out.known)
		cr_skip_test("this kernel has no PSI");
	mt_psi_fork_child();
	strcpy(facts.pressure_watch, "/proc/pressure/memory");
	strcpy(facts.pressure_write, "c29tZSA5MDAwMDAgMjAwMDAwMAA="); /* some 900000 2000000 */
	for (int i = 0; i < 20; i++) {
		mt_psi_read("", "", &facts, &out);
		events += out.event;
		cr_expect(out.known);
	}
	cr_expect_leq(events, 1);
	cr_expect(out.event_is_psi, "and so it is still watched");
	mt_psi_fork_child();
	strcpy(facts.pressure_write, "Zm9vYmFy");
	mt_psi_read("", "", &facts, &out);
	cr_expect_not(out.event || out.event_is_psi, "a trigger that the kernel refuses is none");
	cr_expect(out.known);
	mt_psi_fork_child();
	facts.pressure_write[0] = 0;
	mt_psi_read("", "", &facts, &out);
	cr_expect_not(out.event || out.event_is_psi, "without a trigger there is nothing to watch");
}

/* A real group of version 2, where one can be made. */
Test(psi, the_watch_of_a_group_that_is_removed_is_over)
{
	static struct mt_cgroup_path place;
	unsigned before = open_descriptors();
	struct mt_psi_sample out;
	char group[MT_CGROUP_PATH_BYTES + 32];

	if (mt_cgroup_path_find("", NULL, &place))
		snprintf(group, sizeof(group), "%s/mtshim-test-%d", place.directory, (int)getpid());
	if (!place.length || mkdir(group, 0755) != 0)
		cr_skip_test("no cgroup of version 2 can be made here");
	snprintf(facts.pressure_watch, sizeof(facts.pressure_watch), "%.200s/memory.pressure",
		 group);
	strcpy(facts.pressure_write, "c29tZSA5MDAwMDAgMjAwMDAwMAA=");
	for (int i = 0; i < 3; i++)
		mt_psi_read("", "", &facts, &out);
	cr_expect(!out.event && out.event_is_psi && out.some_us == 0);
	cr_assert_eq(rmdir(group), 0);
	for (int i = 0; i < 3; i++) {
		mt_psi_read("", "", &facts, &out);
		cr_expect_not(out.event || out.event_is_psi);
	}
	cr_expect(out.known, "the machine's");
	cr_expect_eq(open_descriptors(), before);
}

/* ---- what may happen to the descriptor ---- */

Test(psi, a_number_that_somebody_else_has_taken_is_not_read)
{
	char byte = 0;
	int ends[2], fd;

	close(make_fifo());
	for (fd = 199; fd > 2; fd--) { /* the highest is ours: it was opened last */
		struct stat seen;

		if (fstat(fd, &seen) == 0 && S_ISFIFO(seen.st_mode) && seen.st_dev != 0 &&
		    fcntl(fd, F_GETFL) & O_NONBLOCK)
			break;
	}
	cr_assert_gt(fd, 2);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(dup2(ends[0], fd), fd);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	cr_assert_eq(write(ends[1], "x", 1), 1);
	cr_expect_not(has_event());
	cr_expect_not(has_event());
	cr_expect_eq(read(fd, &byte, 1), 1);
	cr_expect_eq(byte, 'x');
	cr_expect_eq(fcntl(fd, F_GETFD), 0, "nor closed");
}

Test(psi, random_bytes_for_figures_are_no_more_than_unknown)
{
	unsigned seed = 1;

	put("/watched", TEXT(7, 3));
	strcpy(facts.pressure_watch, "/watched");
	for (int turn = 0; turn < 3000; turn++) {
		char bytes[700];
		size_t length = (size_t)(rand_r(&seed) % (int)sizeof(bytes));
		struct mt_psi_sample out;

		for (size_t i = 0; i < length; i++)
			bytes[i] = turn % 2 ? (char)rand_r(&seed)
					    : "some full total=0 1\n"[rand_r(&seed) % 20];
		put_bytes(turn % 3 ? "/watched" : "/proc/pressure/memory", bytes, length);
		out = look();
		cr_assert_not(out.event);
		cr_assert(out.known || !out.some_us);
	}
}
