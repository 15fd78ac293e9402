/* plugin.c -- a library to be opened and closed: its constructor and destructor allocate, it has
 * thread-locals of its own, and what it has handed out stays after it is gone. With -DAUDIT an
 * audit library (LD_AUDIT) that looks at every binding. */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef AUDIT
static char *seen;

unsigned la_version(unsigned version)
{
	seen = malloc(1000);
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned la_objopen(struct link_map *map, Lmid_t space, uintptr_t *cookie)
{
	(void)space;
	(void)cookie;
	free(seen);
	seen = strdup(map->l_name);
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned number, uintptr_t *from, uintptr_t *to,
		       unsigned *flags, const char *name)
{
	(void)number;
	(void)from;
	(void)to;
	(void)flags;
	free(malloc(strlen(name)));
	return symbol->st_value;
}
#else
static __thread char *local;
static __thread char room[3000];
static char *held[200];

__attribute__((constructor)) static void on_load(void)
{
	for (unsigned i = 0; i < 200; i++) {
		held[i] = malloc(1 + i * 50);
		if (!held[i])
			abort();
		memset(held[i], (int)i, 1 + i * 50);
	}
}

__attribute__((destructor)) static void on_unload(void)
{
	for (unsigned i = 0; i < 200; i++) {
		if (held[i][0] != (char)i)
			abort();
		free(held[i]);
	}
	free(malloc(100000));
}

/* Touches the thread-locals of the calling thread, and hands out a block. */
char *plugin_give(unsigned number)
{
	if (!local)
		local = malloc(500);
	memset(room, (int)number, sizeof(room));
	memcpy(local, room, 500);
	char *block = malloc(100 + number % 5000);
	if (block)
		sprintf(block, "block %u", number);
	return block;
}

void plugin_take(char *block)
{
	free(block);
}

/* Blocks that libc makes, freed here. */
int plugin_copy(const char *text)
{
	char *copy = strdup(text), *line = NULL, *said = NULL;
	size_t bytes = 0;
	FILE *file = tmpfile();
	int good = copy && file && asprintf(&said, "%s %s\n", text, copy) > 0 &&
		   fputs(said, file) >= 0;

	if (good) {
		rewind(file);
		good = getline(&line, &bytes, file) > 0 && strcmp(line, said) == 0;
	}
	if (file)
		fclose(file);
	free(copy);
	free(line);
	free(said);
	return good;
}

/* Frees what it hands out when its thread ends. */
void plugin_forget(void)
{
	free(local);
	local = NULL;
}
#endif
