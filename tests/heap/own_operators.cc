// own_operators.cc -- a program with its own operators new and delete, over malloc. Code of
// libstdc++ uses them too.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <string>
#include <vector>

static unsigned long made, gone;

void *operator new(std::size_t size)
{
	made++;
	if (void *block = std::malloc(size ? size : 1))
		return block;
	throw std::bad_alloc();
}

void operator delete(void *ptr) noexcept
{
	gone += ptr != nullptr;
	std::free(ptr);
}

void operator delete(void *ptr, std::size_t) noexcept
{
	gone += ptr != nullptr;
	std::free(ptr);
}

int main()
{
	{
		std::map<int, std::string> words;
		std::vector<std::string> more;

		for (int i = 0; i < 5000; i++)
			words[i] = std::string(static_cast<std::size_t>(i % 90), 'x');
		for (auto &word : words)
			more.push_back(word.second);
	}
	std::printf("own %lu %lu\n", made, gone);
	return made == gone ? 0 : 1;
}
