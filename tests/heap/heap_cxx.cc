// heap_cxx.cc -- C++ allocates through the operators of libstdc++: new and delete in every form,
// exceptions that cross threads, bad_alloc, over-aligned types. Prints a transcript that must be
// the same with and without the shim.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

struct alignas(256) Wide {
	unsigned char bytes[512];
};
struct Thrower {
	std::string held = std::string(1000, 'x');
	explicit Thrower(int depth)
	{
		if (depth == 0)
			throw std::runtime_error("thrown from a constructor " + held.substr(0, 3));
		below = std::make_unique<Thrower>(depth - 1);
	}
	std::unique_ptr<Thrower> below;
};

template <typename Call> static const char *outcome(Call call)
{
	try {
		call();
	} catch (const std::bad_array_new_length &) {
		return "bad_array_new_length";
	} catch (const std::bad_alloc &) {
		return "bad_alloc";
	} catch (const std::exception &error) {
		static thread_local std::string text;
		text = error.what();
		return text.c_str();
	}
	return "nothing thrown";
}

static int handler_calls;

static void allocations()
{
	volatile std::size_t all = std::numeric_limits<std::ptrdiff_t>::max();
	std::printf("new of too much: %s\n", outcome([&] { delete[] new char[all]; }));
	std::printf("operator new of too much: %s\n",
		    outcome([&] { ::operator delete(::operator new(all + 100)); }));
	std::printf("aligned new of too much: %s\n", outcome([&] {
			    ::operator delete(::operator new(all, std::align_val_t(64)),
					      std::align_val_t(64));
		    }));
	std::printf("nothrow new of too much: %s\n",
		    ::operator new(all, std::nothrow) ? "block" : "null");
	std::set_new_handler([] {
		if (++handler_calls == 3)
			std::set_new_handler(nullptr);
	});
	std::printf("with a new handler: %s", outcome([&] { delete[] new char[all]; }));
	std::printf(", called %d times\n", handler_calls);
	for (std::size_t alignment = 32; alignment <= 65536; alignment *= 4) {
		void *block = ::operator new(100, std::align_val_t(alignment));
		std::memset(block, 1, 100);
		std::printf("aligned new %zu: %d\n", alignment,
			    reinterpret_cast<std::uintptr_t>(block) % alignment == 0);
		::operator delete(block, 100, std::align_val_t(alignment));
	}
	int wrong = 0;
	std::vector<std::unique_ptr<Wide>> many;
	for (int i = 0; i < 2000; i++) {
		many.push_back(std::make_unique<Wide>());
		wrong += reinterpret_cast<std::uintptr_t>(many.back().get()) % 256 != 0;
	}
	std::vector<Wide> row(100);
	wrong += reinterpret_cast<std::uintptr_t>(row.data()) % 256 != 0;
	std::printf("over-aligned objects out of place: %d\n", wrong);
	std::printf("operator new(0) is a block: %d\n", [] {
		void *p = ::operator new(0);
		::operator delete(p);
		return p != nullptr;
	}());
}

static void exceptions()
{
	std::printf("nested constructors: %s\n", outcome([] { Thrower thrower(50); }));
	std::vector<std::future<std::string>> results;
	for (int i = 0; i < 8; i++)
		results.push_back(std::async(std::launch::async, [i] {
			std::map<std::string, std::vector<int>> table;
			for (int j = 0; j < 2000; j++)
				table[std::to_string(j * i)].push_back(j);
			if (i % 2)
				throw std::runtime_error("from thread " + std::to_string(i));
			return std::to_string(table.size());
		}));
	for (auto &result : results)
		std::printf("thread: %s\n",
			    outcome([&] { std::printf("%s ", result.get().c_str()); }));
}

int main()
{
	allocations();
	exceptions();
	return 0;
}
