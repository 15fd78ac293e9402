/* The table of the driver, with the parts of the shim linked in: a line for each promise that is
 * broken. argv[1]: the driver. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/driver.h"

static int broken;

#define EXPECT(what)                                                                               \
	do {                                                                                       \
		if (!(what))                                                                       \
			broken += printf("line %d: %s\n", __LINE__, #what) > 0;                    \
	} while (0)

static int in_child(int (*check)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		mt_driver_fork_child();
		_exit(check());
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int has_both(void)
{
	return !(mt_driver() && mt_driver_usable());
}

static int has_only_the_table(void)
{
	return !(mt_driver() && !mt_driver_usable());
}

static void check_table(void *driver)
{
	const struct mt_driver *table = mt_driver();
	int found = 0;

#define X(name, parameters, ...) EXPECT(table->name != NULL);
	MT_DRIVER_FUNCTIONS(X)
	MT_DRIVER_QUERIES(X)
#undef X
	for (int i = 0; mt_driver_wrapped_real(i); i++, found++)
		EXPECT(mt_driver_wrapped_index(mt_driver_wrapped_real(i)) == i);
#define X(name, parameters, ...) +1
	EXPECT(found == 0 MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X));
#undef X
	EXPECT(mt_driver_wrapped_index(dlsym(driver, "cuInit")) == -1);
	EXPECT(mt_driver_wrapped_index(NULL) == -1);
	EXPECT(mt_driver_wrapped_index(&broken) == -1);
	EXPECT(mt_driver_wrapped_real(-1) == NULL);
}

int main(int argc, char **argv)
{
	void *driver;

	EXPECT(mt_driver() == NULL && mt_driver_usable() == NULL && mt_driver_version() == 0);
	EXPECT(mt_driver_wrapped_index(&broken) == -1 && mt_driver_wrapped_real(0) == NULL);
	EXPECT(dlerror() == NULL);
	driver = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
	EXPECT(driver != NULL);
	EXPECT(mt_driver() != NULL && mt_driver() == mt_driver());
	EXPECT(dlerror() == NULL);
	check_table(driver);
	/* The program may close it; what we have stays. */
	EXPECT(dlclose(driver) == 0 && dlopen(argv[argc - 1], RTLD_NOW | RTLD_NOLOAD) == driver);
	/* Loaded but not used: a worker forked from here may be the one that does. */
	EXPECT(in_child(has_both));
	EXPECT(mt_driver_usable() == mt_driver());
	EXPECT(in_child(has_only_the_table));
	printf("%d broken\n", broken);
	return broken != 0;
}
