// grower.cc WAY MB_A_SECOND: takes memory in one way, in one function, until the kernel ends it.
// Beside it another function takes and frees.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <unistd.h>
#include <vector>

#define GROWS __attribute__((noinline)) void

struct Row {
	char text[200];
	Row()
	{
		memset(text, 1, sizeof(text));
	}
};

static std::vector<void *> held(1 << 22);
static size_t count;

static void hold(void *block, size_t bytes)
{
	if (!block)
		exit(1);
	memset(block, 1, bytes);
	held[count++] = block;
}

GROWS small(size_t bytes)
{
	for (size_t done = 0; done < bytes; done += 500)
		hold(malloc(500), 500); // line: small
}

GROWS large(size_t bytes)
{
	hold(malloc(bytes), bytes); // line: large
}

GROWS zeroed(size_t bytes)
{
	hold(calloc(bytes / 64 + 1, 64), bytes); // line: zeroed
}

GROWS grown(size_t bytes)
{
	static char *block;
	static size_t size;

	block = static_cast<char *>(realloc(block, size + bytes)); // line: grown
	memset(block + size, 1, bytes);
	size += bytes;
}

GROWS rows(size_t bytes)
{
	for (size_t done = 0; done < bytes; done += sizeof(Row))
		held[count++] = new Row; // line: rows
}

GROWS array(size_t bytes)
{
	hold(new char[bytes], bytes); // line: array
}

static __attribute__((noinline)) void take_and_free()
{
	std::string text(30000, 'x');
	void *block = malloc(7000);

	memset(block, 2, 7000);
	free(block);
}

int main(int argc, char **argv)
{
	const std::map<std::string, void (*)(size_t)> ways = {{"small", small},   {"large", large},
							      {"zeroed", zeroed}, {"grown", grown},
							      {"rows", rows},     {"array", array}};
	auto way = ways.find(argc > 2 ? argv[1] : "");

	if (way == ways.end())
		return 2;
	for (;;) {
		way->second(static_cast<size_t>(atol(argv[2])) * 1048576 / 50);
		take_and_free();
		usleep(20000);
	}
}
