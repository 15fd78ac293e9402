// sites_cxx.cc -- keeps blocks that a method of a class in a namespace allocates, until stdin ends.
#include <cstdio>
#include <cstring>
#include <vector>

namespace app
{
struct Cache {
	std::vector<char *> kept;

	__attribute__((noinline)) void keep(size_t bytes)
	{
		kept.push_back(new char[bytes]);
		memset(kept.back(), 1, bytes);
	}
};
} // namespace app

int main()
{
	app::Cache cache;

	for (int i = 0; i < 4000; i++)
		cache.keep(5000);
	puts("ready");
	fflush(stdout);
	return getchar() == EOF ? 0 : static_cast<int>(cache.kept.size() > 1);
}
