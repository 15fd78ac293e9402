"""scripts/examples: each is run as far as this machine can, and checked by whoever knows its format otherwise."""
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import zipfile

import pytest

import leftovers
from mtctl_helpers import PYTHON, ROOT

EXAMPLES = ROOT / "scripts" / "examples"
RANK = """
import os, sys
rank = os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("SLURM_PROCID")
loaded = "shim" if "libmtshim.so" in open("/proc/self/maps").read() else "bare"
# One write: launchers put their tags between writes.
sys.stdout.write(" ".join(["rank", rank, loaded, *sys.argv[1:]]) + chr(10))
sys.stdout.flush()
"""
FL = """
import ctypes, os
shim = ctypes.CDLL(None)
shim.mt_allocator_type.restype = ctypes.c_char_p
print(shim.mt_allocator_type().decode(), os.environ["LD_PRELOAD"], os.environ.get("MALLOC_CONF"), os.environ["MT_PRESET"])
"""


@pytest.fixture
def launch(bare, mtctl, mt_dir, tmp_path):
	"""launch(words..., NAME=VALUE...): runs an example with mtctl as it is built, in a folder with a program rank.py."""
	(tmp_path / "rank.py").write_text(RANK)
	(tmp_path / "fl.py").write_text(FL)

	def call(script, *words, **environment):
		own = dict(bare, MTCTL=str(mtctl), MT_DIR=str(mt_dir), MT_MIN_MB="0", MT_LOG_LEVEL="info", LOGS=str(tmp_path),
		           PYTHON=PYTHON)
		return subprocess.run([EXAMPLES / script, *words], env=dict(own, **environment), cwd=tmp_path,
		                      capture_output=True, text=True, timeout=180)
	return call


def logs_of(folder):
	return {re.fullmatch(r"mtshim-rank(\d+)-\d+\.log", file.name)[1]: file.read_text()
	        for file in folder.glob("mtshim-rank*.log")}


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.sh")), ids=lambda path: path.name)
def test_shellcheck_and_the_shell_accept_the_scripts(script):
	assert os.access(script, os.X_OK)
	assert subprocess.run(["shellcheck", script], capture_output=True, text=True).stdout == ""
	shell = "bash" if "bash" in script.read_text().splitlines()[0] else "sh"
	assert subprocess.run([shell, "-n", script]).returncode == 0


def test_torchrun_gives_every_rank_the_shim_and_a_log_of_its_own(launch, tmp_path):
	# PyTorch 1.13 fails on Python 3.11 where nothing is redirected.
	done = launch("torchrun.sh", "rank.py", "--epochs", RANKS="2", TORCHRUN_OPTIONS="--redirects 1 --tee 1")

	if "without libuv support" in done.stderr:
		pytest.skip("this PyTorch's torchrun wants libuv, without which it was built")
	assert done.returncode == 0, done.stderr
	assert sorted(re.findall(r"rank \d.*", done.stdout)) == ["rank 0 shim --epochs", "rank 1 shim --epochs"]
	logs = logs_of(tmp_path)
	assert set(logs) == {"0", "1"} and all("mtshim[" in text for text in logs.values())


def test_mpirun_gives_every_rank_the_shim_and_a_log_of_its_own(launch, tmp_path):
	done = launch("mpirun.sh", PYTHON, "rank.py", RANKS="2", MPIRUN_OPTIONS="--oversubscribe",
	              OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

	assert done.returncode == 0, done.stderr
	assert sorted(re.findall(r"rank \d \w+", done.stdout)) == ["rank 0 shim", "rank 1 shim"]
	assert set(logs_of(tmp_path)) == {"0", "1"}


def test_the_slurm_script_starts_its_tasks_through_the_wrapper(launch, tmp_path, mtctl):
	"""With an srun that runs two tasks here: there is no Slurm on this machine."""
	tools = tmp_path / "tools"
	tools.mkdir()
	(tools / "srun").write_text("#!/bin/sh\nshift\nexport SLURM_PROCID\n"
	                            "for SLURM_PROCID in 0 1; do \"$@\" || exit; done\n")
	(tools / "scontrol").write_text("#!/bin/sh\n[ \"$*\" = 'show hostnames node[1-2]' ] && printf 'node1\\nnode2\\n'\n")
	for tool in tools.iterdir():
		tool.chmod(0o755)
	(tmp_path / "train.py").write_text(RANK + "print(os.environ['MASTER_ADDR'], os.environ['WORLD_SIZE'])\n")
	text = (EXAMPLES / "slurm.sh").read_text()
	options = re.findall(r"^#SBATCH (--[a-z-]+)=\S+$", text, re.MULTILINE)
	assert len(options) == text.count("\n#SBATCH ") and text.startswith("#!/bin/bash\n#SBATCH ")

	done = launch("slurm.sh", PATH=f"{tools}:{os.environ['PATH']}", SLURM_SUBMIT_DIR=str(EXAMPLES), SLURM_JOB_ID="7",
	              SLURM_JOB_NODELIST="node[1-2]", SLURM_NTASKS="8")
	assert done.returncode == 0, done.stderr
	assert done.stdout.splitlines() == ["rank 0 shim", "node1 8", "rank 1 shim", "node1 8"]
	assert set(logs_of(tmp_path)) == {"0", "1"}


def test_the_federated_start_script_keeps_what_is_preloaded_and_malloc_conf(launch, shim):
	conf = "narenas:3"
	other = str(next(pathlib.Path("/usr/lib").glob("*-linux-gnu/libz.so.1")))

	done = launch("federated-start.sh", "server", PYTHON, "fl.py", JEMALLOC="1", MALLOC_CONF=conf, LD_PRELOAD=other)
	allocator, preload, *rest = done.stdout.split()

	assert allocator == "jemalloc" and rest == [conf, "server"]
	first, second, *others = preload.split(":")
	assert first == str(shim) and "libjemalloc.so.2" in second and others == [other]


def test_the_federated_start_script_takes_jemalloc_only_where_asked(launch, shim):
	plain = launch("federated-start.sh", "client", PYTHON, "fl.py")
	assert plain.stdout.split() == ["jemalloc", str(shim), "None", "client"]

	missing = launch("federated-start.sh", "client", PYTHON, "fl.py", JEMALLOC="/nowhere/libjemalloc.so")
	assert (missing.returncode, missing.stdout) == (2, "") and "no /nowhere" in missing.stderr
	assert launch("federated-start.sh", "nobody").returncode == 2


def read_yaml(name):
	import yaml
	return yaml.safe_load((EXAMPLES / name).read_text())


def as_kubernetes_reads_it(written, kind):
	"""Each field by its name and type, through the models of Kubernetes' own client: what it does not know, it drops."""
	api = importlib.import_module("kubernetes.client").ApiClient()
	read = api.deserialize(type("Response", (), {"data": json.dumps(written)}), kind)
	assert api.sanitize_for_serialization(read) == written
	return read


def check_mounts(spec):
	volumes = {volume.name for volume in spec.volumes}
	for container in spec.containers + spec.init_containers:
		assert {mount.name for mount in container.volume_mounts} <= volumes


def test_the_pod_is_one_that_kubernetes_knows():
	pod = as_kubernetes_reads_it(read_yaml("kubernetes-pod.yaml"), "V1Pod")
	check_mounts(pod.spec)
	check_mounts(pod.spec)
	train = next(container for container in pod.spec.containers if container.name == "train")
	environment = {variable.name: variable for variable in train.env}
	assert environment["LD_PRELOAD"].value == "/mtshim/mtshim/bin/libmtshim.so" and train.resources.limits["memory"]
	assert environment["RANK"].value_from.field_ref.field_path == "metadata.labels['apps.kubernetes.io/pod-index']"


def test_the_kyverno_policy_adds_what_kubernetes_knows():
	"""There is no Kyverno here: what it adds is read as a part of a pod, without the anchor that says to which containers."""
	rule, = read_yaml("kyverno-policy.yaml")["spec"]["rules"]
	spec = rule["mutate"]["patchStrategicMerge"]["spec"]
	container, = spec["containers"]
	assert container.pop("(name)") == "*"
	container["name"] = "any"

	read = as_kubernetes_reads_it(spec, "V1PodSpec")
	check_mounts(read)
	folder = read.init_containers[0].command[-2].partition("--target=")[2]
	assert folder == read.containers[0].volume_mounts[0].mount_path
	assert read.containers[0].env[0].value == f"{folder}/mtshim/bin/libmtshim.so"


def test_the_compose_file_lets_mtctl_see_the_processes_of_the_training():
	services = read_yaml("compose.yaml")["services"]
	train, page = services["train"], services["page"]

	assert train["ipc"] == "shareable" and page["ipc"] == page["pid"] == "service:train"
	assert set(train) | set(page) <= {"build", "command", "working_dir", "volumes", "environment", "mem_limit", "shm_size", "ipc", "pid",
	                                  "entrypoint", "ports"}
	assert "/mtshim/entrypoint.sh" in train["build"]["dockerfile_inline"] and train["build"] == page["build"]


@pytest.fixture
def image(tmp_path):
	"""image(library): the folder /mtshim of an image, with that library for this machine."""
	def make(library):
		folder = tmp_path / "mtshim" / os.uname().machine
		folder.mkdir(parents=True)
		shutil.copyfile(EXAMPLES / "entrypoint.sh", folder.parent / "entrypoint.sh")
		(folder.parent / "entrypoint.sh").chmod(0o755)
		if library:
			shutil.copyfile(library, folder / "libmtshim.so")
		return folder.parent
	return make


PRELOADED = "import os; print('libmtshim' in open('/proc/self/maps').read(), os.environ.get('LD_PRELOAD'))"


def test_the_entry_point_puts_the_library_before_what_is_preloaded(image, shim, bare, run):
	other = str(next(pathlib.Path("/usr/lib").glob("*-linux-gnu/libz.so.1")))
	folder = image(shim)

	done = run([folder / "entrypoint.sh", PYTHON, "-c", PRELOADED], dict(bare, LD_PRELOAD=other))

	assert (done.stdout, done.stderr) == (f"True {folder}/{os.uname().machine}/libmtshim.so:{other}\n", "")


def test_the_entry_point_takes_the_library_whatever_the_settings_are_and_once(image, shim, bare, run):
	entry = image(shim) / "entrypoint.sh"
	entry.parent.with_name("link").symlink_to(entry)

	done = run([entry.parent.with_name("link"), entry, PYTHON, "-c", PRELOADED], dict(bare, MT_NOSUCH="1", MT_ALLOCATOR="foo", CDPATH="/usr"))

	assert done.stdout == f"True {entry.parent}/{os.uname().machine}/libmtshim.so\n", done.stderr


def test_the_entry_point_says_that_it_got_no_program(image, shim, bare, run):
	done = run([image(shim) / "entrypoint.sh"], bare)

	assert done.returncode == 2 and "CMD" in done.stderr


@pytest.fixture
def damaged(shim, tmp_path):
	(tmp_path / "damaged.so").write_bytes(shim.read_bytes()[:100_000])
	return tmp_path / "damaged.so"


@pytest.mark.parametrize("library", [None, __file__, "damaged"], ids=["missing", "no-library", "damaged"])
def test_the_entry_point_runs_the_program_alone_where_the_loader_takes_no_library(image, bare, run, library, damaged):
	done = run([image(damaged if library == "damaged" else library) / "entrypoint.sh", PYTHON, "-c", PRELOADED + "; raise SystemExit(7)"], bare)

	assert (done.stdout, done.returncode) == ("False None\n", 7)
	assert done.stderr.count("\n") == 1 and "runs without it" in done.stderr


def test_the_dockerfile_is_well_formed_and_names_what_there_is():
	"""Without a container engine: the instructions by their names, each stage and each target that they use."""
	text = re.sub(r"\\\n\s*", " ", (EXAMPLES / "Dockerfile").read_text())
	steps = [line.split(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]

	assert {name for name, _ in steps} <= {"FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT", "CMD"}
	stages = [rest.partition(" AS ")[2] for name, rest in steps if name == "FROM"]
	for stage in re.findall(r"from=(\w+)", " ".join(rest for _, rest in steps)):
		assert stage in stages[:-1]
	for name, rest in steps:
		if name in ("ENTRYPOINT", "CMD"):
			assert all(isinstance(word, str) for word in json.loads(rest))
	for command in (rest for name, rest in steps if name == "RUN"):
		plain = re.sub(r"^--mount=\S+ ", "", command)
		assert subprocess.run(["sh", "-n", "-c", plain]).returncode == 0


def unpack_step(wheels, tmp_path):
	"""Runs the RUN line of the Dockerfile on those wheels, as a container engine does, below a folder of ours."""
	(tmp_path / "wheels").mkdir()
	shutil.copy(EXAMPLES / "entrypoint.sh", tmp_path / "wheels")
	for wheel, text in wheels.items():
		with zipfile.ZipFile(tmp_path / "wheels" / wheel, "w") as packed:
			packed.writestr("mtshim/bin/libmtshim.so", text)
			packed.writestr("mtshim-0.1.0.dist-info/licenses/LICENSE", "terms")
	text = re.sub(r"\\\n\s*", " ", (EXAMPLES / "Dockerfile").read_text())
	command, = re.findall(r"^RUN (.*)$", text, re.MULTILINE)
	command = re.sub(r'(?<=[\s"])/(wheels|unpacked|mtshim)\b', rf"{tmp_path}/\1", command)
	return subprocess.run(["sh", "-c", command], capture_output=True, text=True)


def test_the_dockerfile_unpacks_each_architecture_and_no_second_wheel_for_one(tmp_path):
	x86, arm = (f"mtshim-0.1.0-py3-none-manylinux_2_26_{machine}.whl" for machine in ("x86_64", "aarch64"))
	(tmp_path / "good").mkdir()
	(tmp_path / "bad").mkdir()

	done = unpack_step({x86: "intel", arm: "arm"}, tmp_path / "good")
	assert done.returncode == 0, done.stderr
	for machine, text in (("x86_64", "intel"), ("aarch64", "arm")):
		library = tmp_path / "good/mtshim" / machine / "libmtshim.so"
		assert library.read_text() == text and library.stat().st_mode & 0o555 == 0o555
		assert (tmp_path / "good/mtshim/licenses" / machine / "LICENSE").exists()
	assert os.access(tmp_path / "good/mtshim/entrypoint.sh", os.X_OK)

	done = unpack_step({x86: "intel", x86.replace("0.1.0", "0.2.0"): "newer"}, tmp_path / "bad")
	assert done.returncode == 1 and "two wheels for x86_64" in done.stderr


@pytest.fixture
def engine(tmp_path):
	"""engine(program, words...): runs buildah or podman, with images and containers in a folder that ends with the test. In a mount namespace
	without the second, empty hierarchy of control groups: crun refuses both at once."""
	if os.geteuid() != 0 or not (shutil.which("buildah") and shutil.which("podman") and shutil.which("mmdebstrap")):
		pytest.skip("needs root, buildah, podman and mmdebstrap")
	# podman takes no path of more than 50 characters for its state.
	state = tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/tmp")
	hide = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\""

	def call(program, *words, **options):
		store = ["--root", tmp_path / "store", "--runroot", state, "--storage-driver", "overlay"]
		return subprocess.run(["unshare", "--mount", "sh", "-c", hide, "sh", program, *map(str, [*store, *words])], cwd=tmp_path,
		                      capture_output=True, text=True, timeout=600, **options)
	yield call
	call("podman", "rm", "--all", "--force", "--time=0")
	for folder in (state, tmp_path / "store"):
		shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_a_container_engine_builds_the_image_and_runs_programs_under_it(engine, shim, tmp_path):
	"""With a root of Debian in the place of python:3.12-slim; needs the network for its packages."""
	base = subprocess.run([ROOT / "scripts/clean-root", "bookworm", tmp_path / "base.tar", "--format=tar", "--include=python3"],
	                      capture_output=True, text=True)
	if base.returncode != 0:
		pytest.skip("no root of Debian is to be had: " + base.stderr.strip().splitlines()[-1])
	done = engine("podman", "import", "base.tar", "docker.io/library/python:3.12-slim")
	if done.returncode != 0:
		pytest.skip("podman keeps no image here: " + (done.stderr.strip().splitlines() or ["?"])[-1])
	(tmp_path / "base.tar").unlink()
	limits = ["--rm", "--network=none", "--cgroups=disabled", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000"]
	tried = engine("podman", "run", *limits, "python:3.12-slim", "true")
	if tried.returncode != 0:
		pytest.skip("podman runs no container here: " + (tried.stderr.strip().splitlines() or ["?"])[-1])

	for folder in ("dist", "scripts"):
		(tmp_path / folder).mkdir()
	shutil.copytree(EXAMPLES, tmp_path / "scripts/examples")
	with zipfile.ZipFile(tmp_path / f"dist/mtshim-0.1.0-py3-none-manylinux_2_26_{os.uname().machine}.whl", "w") as wheel:
		wheel.write(shim, "mtshim/bin/libmtshim.so")
		wheel.writestr("mtshim-0.1.0.dist-info/licenses/LICENSE", "")
	built = engine("buildah", "bud", "--isolation=chroot", "-f", "scripts/examples/Dockerfile", "-t", "mtshim", ".")
	assert built.returncode == 0, built.stderr
	(tmp_path / "Dockerfile").write_text('FROM python:3.12-slim\nCOPY --from=mtshim /mtshim /mtshim\nENTRYPOINT ["/mtshim/entrypoint.sh"]\n')
	built = engine("buildah", "bud", "--isolation=chroot", "-t", "user", ".")
	assert built.returncode == 0, built.stderr

	program = "import os; print(os.getpid(), os.getuid(), 'libmtshim' in open('/proc/self/maps').read(), flush=True); os._exit(7)"
	done = engine("podman", "run", *limits, "--read-only", "--user=1000:1000", "--shm-size=64k", "user", "python3", "-c", program)
	assert (done.stdout, done.returncode) == ("1 1000 True\n", 7), done.stderr
	empty = engine("podman", "run", *limits, "user")
	assert empty.returncode == 2 and "repeat it" in empty.stderr
	(tmp_path / "Dockerfile").write_text('FROM user\nRUN rm -r /mtshim/*/libmtshim.so\nENTRYPOINT ["/mtshim/entrypoint.sh"]\n')
	assert engine("buildah", "bud", "--isolation=chroot", "-t", "none", ".").returncode == 0
	alone = engine("podman", "run", *limits, "none", "sh", "-c", "ls / >/dev/null; echo $$ [$LD_PRELOAD]")
	assert alone.stdout == "1 []\n" and alone.stderr.count("\n") == 1 and "runs without it" in alone.stderr


def test_systemd_accepts_the_units(tmp_path):
	if not shutil.which("systemd-analyze"):
		pytest.skip("no systemd-analyze here")
	drop_in = tmp_path / "example.service.d"
	drop_in.mkdir()
	(tmp_path / "example.service").write_text("[Service]\nExecStart=/bin/sleep 1\n")
	shutil.copy(EXAMPLES / "systemd-drop-in.conf", drop_in / "mtshim.conf")
	unit = (EXAMPLES / "mtctl-serve@.service").read_text()
	assert "ExecStart=/usr/bin/mtctl serve " in unit
	# Where the package is not installed its program is not there; man pages neither.
	(tmp_path / "mtctl-serve@.service").write_text(unit.replace("/usr/bin/mtctl", "/bin/true"))

	for name in ("example.service", "mtctl-serve@root.service"):
		done = subprocess.run(["systemd-analyze", "verify", "--man=no", name], cwd=tmp_path, capture_output=True,
		                      text=True, env=dict(os.environ, SYSTEMD_UNIT_PATH=f"{tmp_path}:"))
		if "/run/systemd" in done.stderr and not pathlib.Path("/run/systemd").exists():
			pytest.skip("systemd has never run here, and only root can make its folder")
		ours = [line for line in done.stderr.splitlines() if not line.startswith(("/lib/", "/usr/", "/etc/"))]  # units of other packages
		assert (done.returncode, ours) == (0, []), name
