// cxx_program.cc -- a typical C++ program: containers, strings, threads, exceptions through
// libraries, over-aligned types, iostreams. Prints sums that depend on all of it.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

struct alignas(128) Vector4 {
	double parts[16] = {};
};

static long words(int seed)
{
	std::unordered_map<std::string, std::vector<int>> index;
	std::ostringstream text;
	for (int i = 0; i < 20000; i++)
		text << "word" << (i * seed) % 997 << (i % 10 ? ' ' : '\n');
	std::istringstream in(text.str());
	std::string word;
	for (int at = 0; in >> word; at++)
		index[word].push_back(at);
	long sum = 0;
	for (auto &entry : index)
		sum += std::accumulate(entry.second.begin(), entry.second.end(), 0L) % 1009;
	return sum;
}

static int thrown(int depth)
{
	auto held = std::make_unique<std::deque<std::string>>(100, std::string(depth, 'd'));
	try {
		if (depth == 0)
			throw std::out_of_range("bottom");
		return thrown(depth - 1);
	} catch (const std::out_of_range &) {
		if (depth % 7)
			throw;
		return depth + static_cast<int>(held->size());
	}
}

int main()
{
	std::vector<std::thread> threads;
	std::vector<long> sums(8);
	for (int i = 0; i < 8; i++)
		threads.emplace_back([&, i] { sums[i] = words(i + 2); });
	for (auto &thread : threads)
		thread.join();
	for (long sum : sums)
		std::cout << sum << ' ';
	std::cout << '\n' << thrown(21) << '\n';
	std::map<int, std::unique_ptr<Vector4>> aligned;
	bool good = true;
	for (int i = 0; i < 5000; i++) {
		aligned[i % 700] = std::make_unique<Vector4>();
		good = good && reinterpret_cast<std::uintptr_t>(aligned[i % 700].get()) % 128 == 0;
	}
	std::cout << "aligned " << good << '\n';
	try {
		std::string().at(5);
	} catch (const std::exception &error) {
		std::cout << "caught " << (std::string(error.what()).size() > 10) << '\n';
	}
	return 7;
}
