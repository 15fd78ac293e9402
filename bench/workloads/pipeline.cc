// pipeline.cc -- a typical service in C++. Producers read messages (strings, vectors, a map of
// fields), workers change them, consumers file them in a bounded history. Bounded queues connect
// the stages. Load comes in bursts, each of messages of another size. When the load has gone, all
// but the newest 1 in 16 messages of each history expire.
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "workload.h"

namespace
{

constexpr size_t kStayShare = 16;
constexpr size_t kSizes = 4; // kinds of bursts: from small messages to large ones

struct Message {
	uint64_t number = 0;
	std::string topic;
	std::string body;
	std::vector<double> values;
	std::unordered_map<std::string, std::string> fields;
};

using Parcel = std::unique_ptr<Message>;

class Queue
{
      public:
	explicit Queue(size_t longest) : longest_(longest)
	{
	}

	void put(Parcel parcel)
	{
		std::unique_lock<std::mutex> held(lock_);
		not_full_.wait(held, [this] { return parcels_.size() < longest_; });
		parcels_.push_back(std::move(parcel));
		not_empty_.notify_one();
	}

	// Nothing once it is closed and empty.
	Parcel take()
	{
		std::unique_lock<std::mutex> held(lock_);
		not_empty_.wait(held, [this] { return !parcels_.empty() || is_closed_; });
		if (parcels_.empty())
			return nullptr;
		Parcel parcel = std::move(parcels_.front());
		parcels_.pop_front();
		not_full_.notify_one();
		return parcel;
	}

	void close()
	{
		std::lock_guard<std::mutex> held(lock_);
		is_closed_ = true;
		not_empty_.notify_all();
	}

      private:
	const size_t longest_;
	bool is_closed_ = false;
	std::deque<Parcel> parcels_;
	std::mutex lock_; // protects is_closed_ and parcels_
	std::condition_variable not_empty_, not_full_;
};

std::string random_text(uint64_t *state, size_t low, size_t high)
{
	return std::string(random_between(state, low, high),
			   static_cast<char>('a' + random_between(state, 0, 25)));
}

Parcel make_message(uint64_t *state, uint64_t number, size_t kind)
{
	auto message = std::make_unique<Message>();
	size_t scale = size_t{1} << kind;

	message->number = number;
	message->topic = "sensors/" + std::to_string(random_between(state, 0, 999)) + "/readings";
	message->body = random_text(state, 50 * scale, 400 * scale);
	size_t count = random_between(state, 8, 60 * scale);
	for (size_t i = 0; i < count; i++)
		message->values.push_back(static_cast<double>(random_between(state, 0, 1000)));
	for (size_t i = random_between(state, 2, 10); i > 0; i--)
		message->fields["field-" + std::to_string(i)] = random_text(state, 4, 60);
	return message;
}

// The work on one message: appends text, filters values into a new vector, replaces a field.
void transform(Message *message)
{
	std::vector<double> kept;

	for (double value : message->values)
		if (value > 250)
			kept.push_back(value * 0.5);
	message->values = std::move(kept);
	message->body += " [" + message->topic + "]";
	message->fields.erase("field-1");
	message->fields["mean"] =
		std::to_string(message->values.empty() ? 0.0 : message->values.front());
}

struct Load {
	size_t messages, bursts, producers;
};

void produce(Queue *out, const Load &load, size_t index)
{
	uint64_t state = 1000 + index;
	size_t own = load.messages / load.producers;

	for (size_t i = 0; i < own; i++)
		out->put(make_message(&state, i, i * load.bursts / own % kSizes));
}

void work(Queue *in, Queue *out)
{
	while (Parcel parcel = in->take()) {
		transform(parcel.get());
		out->put(std::move(parcel));
	}
}

void consume(Queue *in, std::deque<Parcel> *history, size_t longest)
{
	while (Parcel parcel = in->take()) {
		history->push_back(std::move(parcel));
		if (history->size() > longest)
			history->pop_front();
	}
}

void join_all(std::vector<std::thread> *threads)
{
	for (auto &thread : *threads)
		thread.join();
	threads->clear();
}

void run(const Load &load, size_t queue_length, size_t history_length,
	 std::vector<std::deque<Parcel>> *histories)
{
	Queue fresh(queue_length), changed(queue_length);
	std::vector<std::thread> producers, workers, consumers;

	for (auto &history : *histories)
		consumers.emplace_back(consume, &changed, &history, history_length);
	for (size_t i = 0; i < load.producers; i++) {
		workers.emplace_back(work, &fresh, &changed);
		producers.emplace_back(produce, &fresh, std::cref(load), i);
	}
	join_all(&producers);
	fresh.close();
	join_all(&workers);
	changed.close();
	join_all(&consumers);
}

} // namespace

int main(int argc, char **argv)
{
	Load load = {option_count(argc, argv, "--messages", 600000),
		     option_count(argc, argv, "--bursts", 12),
		     option_count(argc, argv, "--threads", 2)};
	size_t history_length = option_count(argc, argv, "--history", 50000);
	size_t queue_length = option_count(argc, argv, "--queue", 2000);

	if (load.producers < 1 || load.producers > 64 || load.messages < load.producers ||
	    queue_length < 1)
		return 2;
	uint64_t begun = now_ns();
	std::vector<std::deque<Parcel>> histories(load.producers);
	run(load, queue_length, history_length, &histories);
	double end_rss = rss_mib();
	for (auto &history : histories)
		while (history.size() > history_length / kStayShare)
			history.pop_front();
	double seconds = seconds_since(begun);
	go_idle(option_number(argc, argv, "--idle", 0));
	size_t stay = 0;
	for (auto &history : histories)
		stay += history.size();
	std::printf("{\"work_s\": %.4f, \"total_s\": %.4f, \"us_per_message\": %.3f, \"peak_mib\": "
		    "%.1f, \"end_rss_mib\": %.1f, "
		    "\"messages_stay\": %zu}\n",
		    seconds, seconds, seconds * 1e6 / static_cast<double>(load.messages),
		    peak_mib(), end_rss, stay);
	return 0;
}
