/* ends_cxx.cc -- thread_local and static objects of C++ whose destructors allocate and free, in
 * threads and at the end of the process; the last line is written by the destructor that runs last.
 */
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

static std::atomic<unsigned> ended;

struct holder {
	std::vector<std::string> kept;

	explicit holder(unsigned count)
	{
		for (unsigned i = 0; i < count; i++)
			kept.emplace_back(i % 300 + 1, 'x');
	}
	~holder()
	{
		std::vector<std::string> last(kept.rbegin(), kept.rend());

		kept.clear();
		ended += !last.empty();
	}
};

struct teller {
	std::string word = std::string(100, 'w');

	~teller()
	{
		std::string line = std::to_string(ended.load()) + " ended\n";

		word += word + line;
		std::fputs(line.c_str(), stdout);
		std::fflush(stdout);
	}
};

static teller last_of_all;
static holder of_the_process(2000);
static thread_local holder of_a_thread(500);

int main()
{
	for (unsigned i = 0; i < 60; i++) {
		std::vector<std::thread> threads;

		for (unsigned k = 0; k < 4; k++)
			threads.emplace_back([] { of_a_thread.kept.emplace_back("used"); });
		for (auto &thread : threads)
			thread.join();
	}
	of_a_thread.kept.emplace_back("used");
	return 0;
}
