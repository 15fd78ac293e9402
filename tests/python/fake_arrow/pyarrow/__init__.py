"""What a cleanup uses of pyarrow: its default pool. Counts the calls."""
released = 0


class Pool:
	def release_unused(self):
		global released
		released += 1


def default_memory_pool():
	return Pool()
