#include "ctl/ui/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ctl/channel/process_list.h"
#include "ctl/channel/target.h"
#include "ctl/metrics/openmetrics.h"
#include "ctl/output/json.h"
#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"

/* ---- reader ---- */

#define KEPT_MS 1000 /* an unused process list is freed after this time */

static struct {
	struct mt_process_list processes;
	uint64_t until_ns; /* 0: none */
} last;

static void drop_process_list(void)
{
	mt_process_list_free(&last.processes);
	last.until_ns = 0;
}

static const struct mt_process_list *processes(uint64_t interval_ms)
{
	uint64_t from_ns = mt_clock_now_ns();

	if (from_ns < last.until_ns)
		return &last.processes;
	drop_process_list();
	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &last.processes);
	last.until_ns = from_ns + interval_ms * UINT64_C(1000000) + 1;
	return &last.processes;
}

static char *make_process(pid_t pid, unsigned *out_status)
{
	struct mt_target *target = mt_error_check_memory(malloc(sizeof(*target)));
	struct mt_error_reason why;
	char *text;
	enum mt_err error = mt_job_find(pid, &target->process, &why);

	*out_status = error == MT_ERR_TIMEOUT ? 504 : error ? 404 : 200;
	if (!error) {
		error = mt_target_read(&target->process, &target->file, &why);
		*out_status = !error ? 200 : error == MT_ERR_NOT_AVAILABLE ? 404 : 502;
	}
	text = error ? mt_error_check_memory(strdup(why.text))
		     : mt_json_take_text(mt_stats_json(target));
	free(target);
	return text;
}

static char *make(const struct mt_reader_request *request, uint64_t interval_ms,
		  unsigned *out_status)
{
	size_t bytes;

	*out_status = 200;
	switch (request->form) {
	case MT_READER_OPENMETRICS:
		return mt_openmetrics_render(processes(interval_ms), MT_EXPOSITION_OPENMETRICS,
					     &bytes);
	case MT_READER_PLAIN:
		return mt_openmetrics_render(processes(interval_ms), MT_EXPOSITION_TEXT, &bytes);
	case MT_READER_PROCESSES:
		return mt_json_take_text(mt_process_list_json(processes(interval_ms)));
	case MT_READER_PROCESS:
		return make_process(request->pid, out_status);
	}
	_exit(1);
}

static void reply(const struct mt_reader_request *request, int to, uint64_t interval_ms)
{
	struct mt_reader_head head = {0};
	uint64_t from_ns = mt_clock_now_ns();
	char *text = make(request, interval_ms, &head.status);

	head.bytes = strlen(text);
	head.cost_ns = mt_clock_now_ns() - from_ns;
	mt_watchdog_write(to, &head, sizeof(head));
	mt_watchdog_write(to, text, head.bytes);
	free(text);
}

/* Reads requests from `from` and writes a head and a text for each to `to`, until `from` ends. The
 * list of processes is shared by the forms for interval_ms. */
static _Noreturn void reader_run(int from, int to, uint64_t interval_ms)
{
	struct pollfd wait = {.fd = from, .events = POLLIN};
	struct mt_reader_request request;

	for (;;) {
		int ready = poll(&wait, 1, last.until_ns ? KEPT_MS : -1);

		if (ready == 0)
			drop_process_list();
		else if (ready > 0 &&
			 read(from, &request, sizeof(request)) == (ssize_t)sizeof(request))
			reply(&request, to, interval_ms);
		else if (ready > 0 || errno != EINTR)
			_exit(0);
	}
}

/* a reply is valid for at least this many times its cost */
#define VALID_FACTOR 4u
#define PIECE_BYTES  65536u
#define DEADLINE_NS  (30 * UINT64_C(1000000000))
#define TEXT_MAX     ((size_t)256 << 20)

static void release(struct mt_response *reply)
{
	if (reply->response)
		MHD_destroy_response(reply->response);
	*reply = (struct mt_response){0};
}

/* ---- the reader ---- */

static bool start_reader(struct mt_cache *cache)
{
	int requests[2], replies[2];

	if (pipe2(requests, O_CLOEXEC) != 0)
		return false;
	if (pipe2(replies, O_CLOEXEC) != 0) {
		close(requests[0]);
		close(requests[1]);
		return false;
	}
	cache->reader = fork();
	if (cache->reader == 0) {
		close(requests[1]);
		close(replies[0]);
		mt_jobs_begin_child();
		reader_run(requests[0], replies[1], cache->interval_ms);
	}
	close(requests[0]);
	close(replies[1]);
	cache->to = requests[1];
	cache->from = replies[0];
	(void)fcntl(cache->from, F_SETFL, O_NONBLOCK);
	if (cache->reader > 0)
		return true;
	cache->reader = 0;
	close(cache->to);
	close(cache->from);
	return false;
}

static void end_reader(struct mt_cache *cache)
{
	if (!cache->reader)
		return;
	(void)kill(cache->reader, SIGKILL);
	close(cache->to);
	close(cache->from);
	for (int tries = 0; tries < 100 && waitpid(cache->reader, NULL, WNOHANG) == 0; tries++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	cache->reader = 0;
}

/* ---- waiting connections ---- */

/* Stores a reply, which may be an error, and resumes all connections that wait for it. */
static void deliver(struct mt_cache *cache, struct mt_cache_entry *entry, struct mt_response reply,
		    uint64_t cost_ns)
{
	uint64_t valid_ns = cache->interval_ms * UINT64_C(1000000);

	release(&entry->reply);
	entry->reply = reply;
	entry->reply.kept = true;
	entry->wanted = false;
	entry->until_ns = mt_clock_now_ns() +
			  (cost_ns * VALID_FACTOR > valid_ns ? cost_ns * VALID_FACTOR : valid_ns);
	for (size_t i = 0; i < MT_CLIENTS_MAX; i++) {
		struct mt_cache_waiter *waiter = &cache->waiters[i];

		if (!waiter->connection || waiter->entry != entry || waiter->resumed)
			continue;
		waiter->resumed = true;
		MHD_resume_connection(waiter->connection);
	}
}

static void deliver_failure(struct mt_cache *cache, struct mt_cache_entry *entry)
{
	deliver(cache, entry,
		mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE, "the processes could not be read"),
		0);
}

static void stop_reading(struct mt_cache *cache)
{
	struct mt_cache_entry *current = cache->current;

	end_reader(cache);
	cache->current = NULL;
	cache->bytes = 0;
	if (current)
		deliver_failure(cache, current);
}

static struct mt_response make_reply(enum mt_reader_form form, const struct mt_reader_head *head,
				     const char *from)
{
	static const char *const types[] = {
		[MT_READER_OPENMETRICS] = MT_OPENMETRICS_TYPE,
		[MT_READER_PLAIN] = MT_OPENMETRICS_OLD_TYPE,
		[MT_READER_PROCESSES] = "application/json",
		[MT_READER_PROCESS] = "application/json",
	};
	char *text = mt_error_check_memory(malloc(head->bytes + 1));
	struct mt_response reply;

	memcpy(text, from, head->bytes);
	text[head->bytes] = '\0';
	if (head->status == MHD_HTTP_OK)
		return mt_response_bytes(types[form], text, head->bytes, MT_RESPONSE_FREE);
	reply = mt_response_error(head->status, text);
	free(text);
	return reply;
}

/* ---- the server ---- */

static struct mt_cache_entry *find_entry(struct mt_cache *cache, struct mt_reader_request request)
{
	struct mt_cache_entry *oldest = NULL;

	if (request.form != MT_READER_PROCESS)
		return &cache->list[request.form];
	for (size_t i = MT_READER_PROCESS; i < MT_CACHE_MAX; i++) {
		struct mt_cache_entry *one = &cache->list[i];

		if (one->request.pid == request.pid)
			return one;
		if (!one->waiting && !one->wanted && one != cache->current &&
		    (!oldest || one->until_ns < oldest->until_ns))
			oldest = one;
	}
	return oldest;
}

struct mt_response mt_cache_get(struct mt_cache *cache, struct mt_reader_request request,
				struct MHD_Connection *connection,
				struct mt_cache_waiter **out_waiter)
{
	struct mt_cache_entry *entry = find_entry(cache, request);
	struct mt_cache_waiter *waiter = NULL;

	for (size_t i = 0; i < MT_CLIENTS_MAX && !waiter; i++)
		waiter = cache->waiters[i].connection ? NULL : &cache->waiters[i];
	if (!entry || !waiter || cache->stopped)
		return mt_response_error(MHD_HTTP_SERVICE_UNAVAILABLE,
					 "too many requests are under way, or the server ends");
	if (entry->request.pid != request.pid)
		release(&entry->reply);
	entry->request = request;
	if (entry->reply.response && mt_clock_now_ns() < entry->until_ns)
		return entry->reply;
	entry->wanted |= entry != cache->current;
	entry->waiting++;
	*waiter = (struct mt_cache_waiter){connection, entry, false};
	*out_waiter = waiter;
	MHD_suspend_connection(connection);
	return (struct mt_response){0};
}

void mt_cache_leave(struct mt_cache_waiter *waiter)
{
	waiter->entry->waiting--;
	*waiter = (struct mt_cache_waiter){0};
}

struct mt_response mt_cache_take(struct mt_cache_waiter *waiter)
{
	struct mt_response reply = waiter->entry->reply;

	mt_cache_leave(waiter);
	return reply;
}

size_t mt_cache_poll(const struct mt_cache *cache, struct pollfd *out)
{
	if (!cache->reader)
		return 0;
	*out = (struct pollfd){.fd = cache->from, .events = POLLIN};
	return 1;
}

/* Returns false if the reader has ended, or has written too much. */
static bool read_more(struct mt_cache *cache)
{
	ssize_t got;

	do {
		if (cache->room - cache->bytes < PIECE_BYTES) {
			cache->room = cache->room * 2 + PIECE_BYTES;
			cache->text = mt_error_check_memory(realloc(cache->text, cache->room));
		}
		got = read(cache->from, cache->text + cache->bytes, PIECE_BYTES);
		cache->bytes += got > 0 ? (size_t)got : 0;
	} while (got > 0 && cache->bytes < TEXT_MAX);
	return got < 0 && (errno == EAGAIN || errno == EINTR);
}

static void take_text(struct mt_cache *cache)
{
	struct mt_cache_entry *current = cache->current;
	struct mt_reader_head head;

	if (!current || cache->bytes < sizeof(head))
		return;
	memcpy(&head, cache->text, sizeof(head));
	if (cache->bytes - sizeof(head) < head.bytes)
		return;
	cache->current = NULL;
	deliver(cache, current,
		make_reply(current->request.form, &head, cache->text + sizeof(head)), head.cost_ns);
	free(cache->text);
	cache->text = NULL;
	cache->bytes = cache->room = 0;
}

static void send_next(struct mt_cache *cache)
{
	for (size_t tried = 0; tried < MT_CACHE_MAX && !cache->current; tried++) {
		struct mt_cache_entry *entry = &cache->list[cache->next++ % MT_CACHE_MAX];

		if (!entry->wanted)
			continue;
		entry->wanted = false;
		if ((!cache->reader && !start_reader(cache)) ||
		    write(cache->to, &entry->request, sizeof(entry->request)) !=
			    (ssize_t)sizeof(entry->request)) {
			end_reader(cache);
			deliver_failure(cache, entry);
			continue;
		}
		cache->current = entry;
		cache->deadline_ns = mt_clock_now_ns() + DEADLINE_NS;
	}
}

static void expire(struct mt_cache *cache)
{
	uint64_t now_ns = mt_clock_now_ns();

	for (size_t i = 0; i < MT_CACHE_MAX; i++) {
		struct mt_cache_entry *one = &cache->list[i];

		if (one->reply.response && !one->waiting && now_ns >= one->until_ns)
			release(&one->reply);
	}
}

void mt_cache_run(struct mt_cache *cache)
{
	bool is_alive = !cache->reader || read_more(cache);

	take_text(cache);
	if (!is_alive)
		stop_reading(cache);
	if (cache->current && mt_clock_now_ns() >= cache->deadline_ns)
		stop_reading(cache);
}

void mt_cache_send_next(struct mt_cache *cache)
{
	send_next(cache);
	expire(cache);
}

void mt_cache_stop(struct mt_cache *cache)
{
	cache->stopped = true;
	stop_reading(cache);
	for (size_t i = 0; i < MT_CACHE_MAX; i++)
		if (cache->list[i].wanted)
			deliver_failure(cache, &cache->list[i]);
}

void mt_cache_free(struct mt_cache *cache)
{
	end_reader(cache);
	free(cache->text);
	for (size_t i = 0; i < MT_CACHE_MAX; i++)
		release(&cache->list[i].reply);
}
