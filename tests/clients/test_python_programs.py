"""Python in all the ways it makes threads and processes, and PyTorch's CPU build, which never touches a driver: the GPU part of the shim
must not exist for it."""
import importlib.util

import pytest

PYTHON = "/usr/bin/python3"

PROGRAMS = {
	"threads": r'''
import threading, hashlib, queue
work, results = queue.Queue(), {}
def run():
    while (n := work.get()) is not None:
        data = [bytes([n % 256]) * k for k in range(1, 400)]
        results[n] = hashlib.sha256(b"".join(data)).hexdigest()[:8]
threads = [threading.Thread(target=run) for _ in range(6)]
for t in threads: t.start()
for n in range(120): work.put(n)
for _ in threads: work.put(None)
for t in threads: t.join()
print(sorted(results.items()))
''',
	"fork": r'''
import os, sys
total = 0
for n in range(30):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        held = [str(i) * 50 for i in range(5000)]
        os.write(w, f"{sum(map(len, held)) + n}\n".encode())
        os._exit(n % 3)
    os.close(w)
    total += int(os.read(r, 100)) + os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(r)
print(total)
sys.exit(5)
''',
	"subprocess": r'''
import subprocess, sys
out = [subprocess.run(["sh", "-c", f"echo {n}; exit {n % 4}"], capture_output=True) for n in range(20)]
print([(o.stdout, o.returncode) for o in out])
p = subprocess.Popen([sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"], stdin=-1, stdout=-1)
print(p.communicate(b"x" * 3000000))
''',
	"multiprocessing-fork": r'''
import multiprocessing as mp
def f(n): return sum(len(str(k)) for k in range(n * 500))
if __name__ == "__main__":
    mp.set_start_method("fork")
    with mp.Pool(3) as pool:
        print(pool.map(f, range(30)))
''',
	"multiprocessing-spawn": r'''
import multiprocessing as mp
def f(n): return sum(len(str(k)) for k in range(n * 500))
if __name__ == "__main__":
    mp.set_start_method("spawn")
    with mp.Pool(2) as pool:
        print(pool.map(f, range(10)))
    q = mp.Queue()
    ps = [mp.Process(target=q.put, args=(bytes(n),)) for n in (10, 200000)]
    for p in ps: p.start()
    print(sorted(len(q.get()) for _ in ps))
    for p in ps: p.join()
    print([p.exitcode for p in ps])
''',
	"asyncio-and-signals": r'''
import asyncio, signal, os
async def main():
    got = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, got.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await asyncio.wait_for(got.wait(), 10)
    p = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    out, _ = await p.communicate(b"y" * 100000)
    print(len(out), signal.getsignal(signal.SIGUSR2))
asyncio.run(main())
''',
	"errors": r'''
import sys
try:
    bytearray(1 << 62)
except MemoryError as e:
    print("refused", e)
try:
    [0] * (1 << 60)
except MemoryError:
    print("refused")
def deep(n): return deep(n + 1)
try:
    deep(0)
except RecursionError:
    print("deep")
raise SystemExit("last words")
''',
	"objects": r'''
import json, collections, re, decimal, random
random.seed(3)
data = {str(i): [random.random() for _ in range(20)] for i in range(3000)}
text = json.dumps(data)
again = json.loads(text)
print(len(text), again == data, collections.Counter(re.findall(r"\d", text)).most_common(3))
print(decimal.Decimal(2).sqrt(decimal.Context(200)))
''',
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_python_prints_the_same(same, tmp_path, name):
	# From a file: multiprocessing's spawn imports the program again.
	program = tmp_path / "program.py"
	program.write_text(PROGRAMS[name])

	got = same([PYTHON, program])

	assert got.stdout, "it has printed something"


TRAINING = r'''
import torch
torch.manual_seed(1)
torch.set_num_threads(2)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 30 * 30, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(6):
    x, y = torch.randn(16, 3, 32, 32), torch.randint(0, 10, (16,))
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimiser.zero_grad(); loss.backward(); optimiser.step()
    print(f"{loss.item():.4f}")
import io
buffer = io.BytesIO()
torch.save(model.state_dict(), buffer)
buffer.seek(0)
print(sorted(torch.load(buffer)))
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.arange(40.)), batch_size=8, num_workers=2,
                                   multiprocessing_context="fork")
print([batch[0].sum().item() for batch in data])
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized())
torch.cuda.empty_cache()
print("libcuda" in open("/proc/self/maps").read())
'''


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="python3-torch is not installed (scripts/bootstrap)")
def test_a_pytorch_training_prints_the_same_beside_a_driver_that_it_does_not_use(run, bare, env, busy, fakecuda, tmp_path):
	"""With the defaults it grows enough to wake the shim up."""
	program = tmp_path / "training.py"
	program.write_text(TRAINING)
	expected = run([PYTHON, program], bare)
	assert expected.returncode == 0 and len(expected.stdout.splitlines()) == 10 and expected.stdout.endswith("False\n"), expected.stderr

	for settings in (env(ALLOCATOR="jemalloc"), fakecuda(busy(ALLOCATOR="system"), LOG=tmp_path / "calls")):
		got = run([PYTHON, program], settings)

		assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)
	assert not (tmp_path / "calls").exists()
