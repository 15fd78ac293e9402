"""Python programs that use SIGUSR1 in the ways programs do; test_signals.py runs each without and with the shim."""

SCRIPTS = {
	"asks_at_the_start": """
		import signal
		for number in (signal.SIGUSR1, signal.SIGUSR2):
			print(repr(signal.getsignal(number)), signal.getsignal(number) is signal.SIG_DFL)
	""",
	"sets_and_puts_back": """
		import os, signal
		seen = []
		print(signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(number)) is signal.SIG_DFL)
		os.kill(os.getpid(), signal.SIGUSR1)
		print(seen, signal.getsignal(signal.SIGUSR1).__name__)
		print(signal.signal(signal.SIGUSR1, signal.SIG_IGN).__name__)
		os.kill(os.getpid(), signal.SIGUSR1)
		print(seen, signal.signal(signal.SIGUSR1, signal.SIG_DFL) is signal.SIG_IGN)
		signal.raise_signal(signal.SIGUSR1)
	""",
	"interrupts_system_calls": """
		import os, select, signal, threading, time
		def later():
			time.sleep(0.2)
			signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
		def handler(number, frame):
			print("handled", time.monotonic() - begin < 2)
			raise TimeoutError
		signal.signal(signal.SIGUSR1, handler)
		for flag in (True, False, True):
			signal.siginterrupt(signal.SIGUSR1, flag)
			for wait in (lambda: time.sleep(5), lambda: select.select([], [], [], 5)):
				begin = time.monotonic()
				threading.Thread(target=later).start()
				try:
					wait()
					print("waited")
				except TimeoutError:
					print("left", time.monotonic() - begin < 2)
	""",
	"handler_is_not_late": """
		import os, signal, threading, time
		read_end, write_end = os.pipe()
		def later():
			time.sleep(0.2)
			os.kill(os.getpid(), signal.SIGUSR1)
		def handler(number, frame):
			print("handled", time.monotonic() - begin < 2)
			os.write(write_end, b"x")
		signal.signal(signal.SIGUSR1, handler)
		begin = time.monotonic()
		threading.Thread(target=later).start()
		signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
		print(os.read(read_end, 1))
	""",
	"default_int_handler": """
		import os, signal
		signal.signal(signal.SIGUSR1, signal.default_int_handler)
		try:
			os.kill(os.getpid(), signal.SIGUSR1)
		except KeyboardInterrupt:
			print("interrupted")
	""",
	"faulthandler": """
		import faulthandler, os, signal, sys
		faulthandler.register(signal.SIGUSR1, all_threads=False)
		os.kill(os.getpid(), signal.SIGUSR1)
		print("alive", faulthandler.unregister(signal.SIGUSR1), signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL)
		faulthandler.register(signal.SIGUSR1, all_threads=True)
		os.kill(os.getpid(), signal.SIGUSR1)
		signal.raise_signal(signal.SIGUSR1)
	""",
	"faulthandler_chains_to_a_handler": """
		import faulthandler, os, signal
		signal.signal(signal.SIGUSR1, lambda number, frame: print("handler", number))
		faulthandler.register(signal.SIGUSR1, chain=True)
		for _ in range(3):
			os.kill(os.getpid(), signal.SIGUSR1)
		faulthandler.unregister(signal.SIGUSR1)
		os.kill(os.getpid(), signal.SIGUSR1)
	""",
	"faulthandler_chains_to_ignoring": """
		import faulthandler, os, signal
		signal.signal(signal.SIGUSR1, signal.SIG_IGN)
		faulthandler.register(signal.SIGUSR1, chain=True)
		os.kill(os.getpid(), signal.SIGUSR1)
		print("alive", signal.getsignal(signal.SIGUSR1))
	""",
	"faulthandler_chains_to_dying": """
		import faulthandler, os, signal
		faulthandler.register(signal.SIGUSR1, chain=True)
		os.kill(os.getpid(), signal.SIGUSR1)
		print("not reached")
	""",
	"faulthandler_unregistered": """
		import faulthandler, os, signal
		faulthandler.register(signal.SIGUSR1)
		faulthandler.unregister(signal.SIGUSR1)
		os.kill(os.getpid(), signal.SIGUSR1)
		print("not reached")
	""",
	"a_chain_of_handlers": """
		import os, signal
		class Chain:
			def __init__(self, *handlers):
				self.handlers = handlers
			def __call__(self, number, frame):
				for handler in self.handlers:
					handler(number, frame)
		def add(handler):
			before = signal.getsignal(signal.SIGUSR1)
			print(before in (None, signal.SIG_DFL))
			signal.signal(signal.SIGUSR1, Chain(before, handler) if callable(before) else handler)
		for word in ("requeue", "checkpoint", "log"):
			add(lambda number, frame, word=word: print(word, number))
		os.kill(os.getpid(), signal.SIGUSR1)
		original = signal.getsignal(signal.SIGUSR1)
		signal.signal(signal.SIGUSR1, signal.SIG_DFL)
		signal.signal(signal.SIGUSR1, original)
		os.kill(os.getpid(), signal.SIGUSR1)
	""",
	"forks": """
		import os, signal
		print(signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, flush=True)
		signal.signal(signal.SIGUSR1, lambda number, frame: print("handler", os.getpid() == parent, flush=True))
		parent = os.getpid()
		if (child := os.fork()) == 0:
			os.kill(os.getpid(), signal.SIGUSR1)
			signal.signal(signal.SIGUSR1, signal.SIG_DFL)
			signal.raise_signal(signal.SIGUSR1)
		print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
		os.kill(parent, signal.SIGUSR1)
	""",
	"subprocesses": """
		import signal, subprocess, sys
		ask = [sys.executable, "-c", "import signal; print(repr(signal.getsignal(signal.SIGUSR1)))"]
		for handler in (signal.SIG_DFL, signal.SIG_IGN, lambda number, frame: print("handler", flush=True)):
			signal.signal(signal.SIGUSR1, handler)
			for options in ({}, {"restore_signals": False}, {"close_fds": False}, {"start_new_session": True},
			                {"preexec_fn": lambda: signal.signal(signal.SIGUSR1, signal.SIG_IGN)}):
				subprocess.run(ask, check=True, **options)
			print(signal.getsignal(signal.SIGUSR1) == handler, flush=True)
		signal.raise_signal(signal.SIGUSR1)
	""",
	"multiprocessing": """
		import multiprocessing, os, signal
		def work(queue):
			before = signal.getsignal(signal.SIGUSR1)
			signal.signal(signal.SIGUSR1, lambda number, frame: queue.put(("child", callable(before))))
			os.kill(os.getpid(), signal.SIGUSR1)
		signal.signal(signal.SIGUSR1, lambda number, frame: print("parent", flush=True))
		context = multiprocessing.get_context("fork")
		queue = context.Queue()
		child = context.Process(target=work, args=(queue,))
		child.start()
		print(queue.get(timeout=20))
		child.join()
		print(child.exitcode)
		child = context.Process(target=signal.pause)
		child.start()
		signal.signal(signal.SIGUSR1, signal.SIG_DFL)
		child.terminate()
		child.join()
		print(child.exitcode, signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL)
	""",
	"asyncio": """
		import asyncio, os, signal
		async def main():
			come = asyncio.Event()
			asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, come.set)
			os.kill(os.getpid(), signal.SIGUSR1)
			await asyncio.wait_for(come.wait(), 10)
			print("come", asyncio.get_running_loop().remove_signal_handler(signal.SIGUSR1))
			print(signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL)
		asyncio.run(main())
	""",
	"waits_for_it": """
		import os, signal
		signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
		for _ in range(20):
			os.kill(os.getpid(), signal.SIGUSR1)
			print(signal.sigpending(), signal.sigwait([signal.SIGUSR1]))
		print(signal.sigtimedwait([signal.SIGUSR1], 0))
	""",
	"timers": """
		import signal
		signal.signal(signal.SIGALRM, lambda number, frame: signal.raise_signal(signal.SIGUSR1))
		count = 0
		def handler(number, frame):
			global count
			count += 1
		signal.signal(signal.SIGUSR1, handler)
		signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
		while count < 20:
			signal.pause()
		# Python puts the handler back to the default as it ends: a timer that goes on then kills it, shim or not.
		signal.setitimer(signal.ITIMER_REAL, 0)
		print("done")
	""",
}
