"""PyTorch's CPU build, which never touches a driver: the GPU part of the shim must not exist for it."""
import importlib.util

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="python3-torch is not installed (scripts/bootstrap)")

SCRIPT = """
import torch
torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
	loss = model(torch.randn(16, 64)).square().mean()
	optimiser.zero_grad(); loss.backward(); optimiser.step()
	print(step, loss.item())
print(torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.is_initialized())
torch.cuda.empty_cache()
print('libcuda' in open('/proc/self/maps').read())
"""


@pytest.fixture
def torch_run(run):
	return lambda environment: run(["/usr/bin/python3", "-c", SCRIPT], environment, timeout=120)


def test_torch_without_cuda_is_left_alone(torch_run, bare, env, fakecuda, tmp_path):
	expected = torch_run(bare)
	assert expected.returncode == 0 and expected.stdout.endswith("False\n"), expected.stderr

	for environment in (env(), fakecuda(env(MIN_MB=0), LOG=tmp_path / "calls")):
		got = torch_run(environment)

		assert (got.stdout, got.stderr, got.returncode) == (expected.stdout, expected.stderr, expected.returncode)
	assert not (tmp_path / "calls").exists()
