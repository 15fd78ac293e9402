"""What the shim asks of the loader unasked, beside a program that forks."""


def test_a_child_forked_while_the_worker_looks_for_java_can_look_too(run, env, compile_c):
	"""A cleanup signal of USR2 would be Java's, which may be loaded at any time: it is looked for at each full look."""
	got = run([compile_c("fork_walks.c", "-rdynamic"), 200], env(MIN_MB=0, TICK_MS=10, SIGNAL="USR2"), timeout=120)

	assert got.stdout == "200 of 200\n", got.stderr
