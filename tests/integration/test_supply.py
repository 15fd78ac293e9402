"""What goes into a release and where it is from: the same bytes from the same source, bills of materials, names of packages.
The whole of it, two builds compared byte by byte, is `make check-reproducible`."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

import pytest

from mtctl_helpers import ROOT
from test_ship import VERSION, deb, dist, said, shared  # noqa: F401 (fixtures)

pytestmark = pytest.mark.xdist_group("ship")  # one worker: they build in the tree, one at a time

SPDX_ID = re.compile(r"SPDXRef-[A-Za-z0-9.-]+")
ESSENTIAL = {"gcc", "make", "binutils", "libc6-dev"}  # build-essential: no Build-Depends names it


# ---- names of packages ----

def packages(group=r"\w+"):
	"""name -> reason, as scripts/packages has them."""
	lines = [line for line in (ROOT / "scripts/packages").read_text().splitlines() if line and not line.startswith("#")]
	rows = [re.fullmatch(r"(build|demo|tests|bench|suites|gpu) +(\S+) +(\S.*)", line) for line in lines]
	assert all(rows), [line for line, row in zip(lines, rows) if not row]
	names = [name for row in rows for name in row[2].split("|")]
	assert len(names) == len(set(names)), "each name once"
	return {row[2]: row[3] for row in rows if re.fullmatch(group, row[1])}


def test_every_package_that_bootstrap_installs_is_named_once_with_its_reason():
	assert len(packages()) > 50 and all(len(reason) >= 5 for reason in packages().values())


def test_what_make_needs_is_what_the_package_is_built_with():
	text = (ROOT / "packaging/debian/control").read_text()
	field = re.search(r"^Build-Depends:((?:.*\n)(?: .*\n)*)", text, re.MULTILINE)[1]

	needed = {name.split()[0] for name in field.replace("\n", " ").split(",")}
	assert needed - {"debhelper-compat"} == set(packages("build")) - ESSENTIAL, "debhelper makes the package, not the programs"


def test_no_document_or_script_installs_what_bootstrap_does_not_know():
	known = {name for entry in packages() for name in entry.split("|")}
	texts = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "scripts").glob("*"), *(ROOT / "scripts/examples").glob("*"),
	         *(ROOT / ".ci").glob("*")]
	for path in texts:
		text = path.read_text(errors="replace") if path.is_file() else ""
		text = re.sub(r"pip install (--[a-z-]+ )*\S*mtshim-\S*\.whl", "", text)  # our own wheel
		text = re.sub(r'pip --disable-pip-version-check install [^\n"]*"\$\(names_of gpu\)"', "", text)  # of scripts/packages
		text = re.sub(r'pip install (--[a-z-]+(=\d+)? )*--target "\$cuda"', "", text)  # NVIDIA's header, which may not lie here
		assert not re.search(r"\bpip3? install|curl .*\| *(ba)?sh|\bnpm install", text), path
		for line in re.findall(r"apt(?:-get)? install ([^\n\"&|;)`#]*)", text):
			named = {word for word in line.split() if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", word)}
			assert named <= known | {"mtshim"}, (path, named - known)


def test_bootstrap_takes_any_of_two_names_and_only_those_of_the_groups_asked_for(tmp_path):
	"""With a dpkg-query that knows what it is told."""
	fake = tmp_path / "dpkg-query"
	fake.write_text('#!/bin/sh\nfor last; do :; done\n'
	                'case "$*" in *Version*) case $last in python3) echo 3.12.3-1ubuntu2 ;; clang) echo 1:18.0-59 ;; esac; exit ;; esac\n'
	                'for name in $HAS; do echo "installed $name"; done\n')
	fake.chmod(0o755)

	def check(*words, has=()):
		environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HAS": " ".join(has)}
		done = subprocess.run([ROOT / "scripts/bootstrap", "--check", *words], env=environment, capture_output=True, text=True)
		return done.returncode, done.stdout.partition(":")[2].split()

	assert check("--build", has=packages("build")) == (0, [])
	assert set(check("--build")[1]) == set(packages("build"))
	assert set(check("--demo")[1]) == set(packages("build|demo")) and len(packages("demo")) < 5, "a visitor's demo installs no test's packages"
	second = [name.split("|")[-1].replace("%python", "3.12").replace("%clang", "18") for name in packages()]
	assert any("|" in name for name in packages()) and check(has=second) == (0, [])
	code, missing = check(has=[name for name in second if name != "g++"])
	assert (code, missing) == (1, ["g++"])
	assert "libpython3.12-testsuite" in second and "libpython3.12-testsuite" in check(has=["g++"])[1]
	assert "libclang-rt-18-dev" in check(has=["g++"])[1]


def test_bootstrap_leaves_out_what_the_distribution_does_not_have_and_says_so(tmp_path):
	"""Of a hundred names apt-get installs none where it does not know one. What make needs it must find missing itself."""
	def write(name, text):
		(tmp_path / name).write_text(f"#!/bin/sh\nfor last; do :; done\n{text}\n")
		(tmp_path / name).chmod(0o755)

	def bootstrap(absent):
		write("apt-cache", f'case $last in {absent}) exit 100 ;; *) echo "Package: $last" ;; esac')
		done = subprocess.run([ROOT / "scripts/bootstrap"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True)
		return done.stdout, done.stderr

	write("dpkg-query", "exit 1")
	write("id", "echo 0")
	write("tee", "exit 0")
	write("chmod", "exit 0")
	write("rm", "exit 0")
	write("apt-get", 'echo "apt-get $*"')
	installs, said = bootstrap("hyperfine|postgresql-15")
	assert " hyperfine" not in installs and " postgresql " in installs and " gcc " in installs
	assert said == "bootstrap: this distribution does not have hyperfine: what needs it is skipped\n"
	installs, said = bootstrap("libjemalloc-dev")
	assert " libjemalloc-dev" in installs
	# A fresh image has no package lists, so no version of python3 is known before apt-get update.
	write("apt-get", f'case $* in *update*) touch {tmp_path}/lists ;; *) echo "apt-get $*" ;; esac')
	write("apt-cache", f'[ -e {tmp_path}/lists ] || exit 100\necho "Package: $last"; echo "Version: 1:3.13.5-1"')
	done = subprocess.run([ROOT / "scripts/bootstrap"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True)
	assert " libpython3.13-testsuite " in done.stdout and " libclang-rt-3-dev " in done.stdout and "%" not in done.stdout


@pytest.mark.skipif(shutil.which("sudo") is not None, reason="sudo is here, which bootstrap would use")
def test_an_ordinary_user_needs_no_package_that_the_distribution_does_not_have(tmp_path):
	def write(name, text):
		(tmp_path / name).write_text(f"#!/bin/sh\nfor last; do :; done\n{text}\n")
		(tmp_path / name).chmod(0o755)

	write("id", "echo 1000")
	names = " ".join(name for entry in packages() for name in entry.split("|") if name != "hyperfine")
	write("dpkg-query", f'case "$*" in *Version*) echo 3.12.3 ;; *) printf "installed %s\\n" {names} ;; esac'.replace("%python", "3.12").replace("%clang", "3"))
	for absent, code, said in (("hyperfine", 0, "this distribution does not have hyperfine: what needs it is skipped"),
	                           ("nothing", 1, "neither root nor sudo; missing: hyperfine")):
		write("apt-cache", f'case $last in {absent}) exit 100 ;; *) echo "Package: $last" ;; esac')
		done = subprocess.run([ROOT / "scripts/bootstrap"], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True)
		assert (done.returncode, done.stderr) == (code, f"bootstrap: {said}\n")


# ---- the same bytes ----

@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_objects_of_every_kind_are_the_same_bytes_wherever_by_whomever_and_whenever_they_are_made():
	done = subprocess.run([ROOT / "scripts/check-reproducible", "--quick"], capture_output=True, text=True, timeout=120)

	assert done.returncode == 0, done.stdout + done.stderr
	assert re.search(r"^1\d files the same, 0 differ$", done.stdout, re.MULTILINE)


@pytest.mark.long
def test_two_builds_of_everything_are_the_same_bytes():
	done = subprocess.run([ROOT / "scripts/check-reproducible"], capture_output=True, text=True, timeout=3000)

	assert done.returncode == 0, done.stdout + done.stderr
	assert ".deb" in done.stdout and ".tar.xz" in done.stdout


# ---- bills of materials ----

def check_spdx(text):
	"""The rules of SPDX 2.3 that can be seen in the file itself (its JSON schema, and clauses 6 to 11); answers the document."""
	bill = json.loads(text)
	assert (bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]) == ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT")
	assert bill["name"] and re.fullmatch(r"https://[^#\s]+", bill["documentNamespace"])
	assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", bill["creationInfo"]["created"])
	assert all(re.match(r"(Tool|Organization|Person): \S", one) for one in bill["creationInfo"]["creators"])
	elements = [bill, *bill["packages"], *bill["files"]]
	names = [one["SPDXID"] for one in elements]
	assert len(names) == len(set(names)) and all(SPDX_ID.fullmatch(name) for name in names)
	for package in bill["packages"]:
		check_package(package)
	for file in bill["files"]:
		check_file(file)
	for one in bill["relationships"]:
		assert {one["spdxElementId"], one["relatedSpdxElement"]} <= set(names) and re.fullmatch("[A-Z_]+", one["relationshipType"])
	assert {one["relatedSpdxElement"] for one in bill["relationships"] if one["relationshipType"] == "DESCRIBES"} <= set(names)
	return bill


def check_license(*texts):
	known = {"Apache-2.0", "BSD-2-Clause", "MIT", "Apache-2.0 AND BSD-2-Clause", "Apache-2.0 AND MIT", "Apache-2.0 AND BSD-2-Clause AND MIT",
	         "NOASSERTION", "NONE"}
	assert set(texts) <= known, texts


def check_package(package):
	assert package["name"] and package["downloadLocation"] == "NOASSERTION" and package["copyrightText"]
	check_license(package["licenseConcluded"], package["licenseDeclared"])
	assert re.match(r"(Organization|Person): \S|NOASSERTION$", package.get("supplier", "NOASSERTION"))
	# A verification code where the files were looked at, and only there.
	assert ("packageVerificationCode" in package) == package["filesAnalyzed"]
	for one in package.get("externalRefs", []):
		assert (one["referenceCategory"], one["referenceType"]) == ("PACKAGE-MANAGER", "purl")
		assert re.fullmatch(r"pkg:deb/\w+/[a-z0-9.+-]+@[^\s?@]+\?arch=\w+&distro=[\w.-]+", one["referenceLocator"])


def check_file(file):
	assert file["fileName"].startswith("./") and file["copyrightText"] and file["licenseInfoInFiles"]
	check_license(file["licenseConcluded"])
	sums = {one["algorithm"]: one["checksumValue"] for one in file["checksums"]}
	assert re.fullmatch("[0-9a-f]{40}", sums["SHA1"]) and re.fullmatch("[0-9a-f]{64}", sums["SHA256"])


def compare_files(bill, folder, left_out=()):
	"""Every file of the folder and nothing else, each by its checksums, and the package's code over them all (clause 7.9)."""
	listed = {file["fileName"][2:]: {one["algorithm"]: one["checksumValue"] for one in file["checksums"]} for file in bill["files"]}
	found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
	assert set(listed) == set(found) - set(left_out)
	for name, sums in listed.items():
		assert sums == {"SHA1": hashlib.sha1(found[name]).hexdigest(), "SHA256": hashlib.sha256(found[name]).hexdigest()}, name
	code = hashlib.sha1("".join(sorted(sums["SHA1"] for sums in listed.values())).encode()).hexdigest()
	assert bill["packages"][0]["packageVerificationCode"]["packageVerificationCodeValue"] == code
	own = bill["packages"][0]["SPDXID"]
	contained = {one["relatedSpdxElement"] for one in bill["relationships"]
	             if (one["spdxElementId"], one["relationshipType"]) == (own, "CONTAINS")}
	assert contained == {file["SPDXID"] for file in bill["files"]}


def linked(bill, kind):
	"""(program, package) of every relation of this kind."""
	names = {file["SPDXID"]: pathlib.PurePath(file["fileName"]).name for file in bill["files"]} | \
		{package["SPDXID"]: package["name"] for package in bill["packages"]}
	return {(names[one["spdxElementId"]], names[one["relatedSpdxElement"]]) for one in bill["relationships"]
	        if one["relationshipType"] == kind}


def test_the_tarball_has_a_bill_of_everything_in_it(dist, tmp_path):
	with tarfile.open(dist) as tar:
		tar.extractall(tmp_path)
	tree = tmp_path / f"mtshim-{VERSION}"
	bill = check_spdx((tree / f"mtshim-{VERSION}.spdx.json").read_text())

	compare_files(bill, tree, left_out=[f"mtshim-{VERSION}.spdx.json"])
	own = bill["packages"][0]
	assert (own["name"], own["versionInfo"], own["licenseDeclared"]) == ("mtshim", VERSION, "Apache-2.0")
	assert own["sourceInfo"] == "git commit " + said("git", "rev-parse", "HEAD", cwd=ROOT).strip()
	assert {package["name"] for package in bill["packages"][1:]} == set(packages("build")) - ESSENTIAL
	assert "Apache License" in (tree / "LICENSE").read_text()[:200]


def bill_of(package):
	return package.with_suffix(".spdx.json").read_text()


def test_the_package_has_a_bill_of_its_files_and_of_what_was_linked(deb, tmp_path):
	bill = check_spdx(bill_of(deb))
	said("dpkg-deb", "-x", deb, tmp_path)

	compare_files(bill, tmp_path)
	assert ("libmtshim.so", "jemalloc") in linked(bill, "STATIC_LINK")
	jemalloc = next(one for one in bill["packages"] if one["name"] == "jemalloc")
	archive = pathlib.Path(said("cc", "-print-file-name=libjemalloc_pic.a").strip())
	assert {"algorithm": "SHA256", "checksumValue": hashlib.sha256(archive.read_bytes()).hexdigest()} in jemalloc["checksums"]
	built_using = said("dpkg-deb", "-f", deb, "Static-Built-Using")
	source, version = re.search(r"(\S+) \(= (.*)\)", built_using).groups()
	assert source == "jemalloc" and f"of source package jemalloc {version}" in jemalloc["sourceInfo"]
	assert re.match(r"\d+\.\d+\.\d+", jemalloc["versionInfo"]) and jemalloc["licenseDeclared"] == "BSD-2-Clause"
	assert jemalloc["externalRefs"][0]["referenceLocator"].startswith("pkg:deb/")


def test_the_package_names_the_chart_library_that_its_page_holds_and_its_license(deb, tmp_path):
	library = pathlib.Path("/usr/share/javascript/dygraphs/dygraph.min.js")
	if not library.exists():
		pytest.skip("libjs-dygraphs is not installed")
	bill = json.loads(bill_of(deb))
	said("dpkg-deb", "-x", deb, tmp_path)

	dygraphs = next(one for one in bill["packages"] if one["name"] == "dygraphs")
	assert {"algorithm": "SHA256", "checksumValue": hashlib.sha256(library.read_bytes()).hexdigest()} in dygraphs["checksums"]
	assert dygraphs["licenseDeclared"] == "MIT" and f"v{dygraphs['versionInfo']}/" in library.read_text()[:200]
	assert ("mtctl-serve", "dygraphs") in linked(bill, "CONTAINS")
	text = (tmp_path / "usr/share/doc/mtshim/copyright").read_text()
	assert "Files: mtctl-serve" in text and "Dan Vanderkam" in text and "Permission is hereby granted" in text


def test_the_bill_of_the_package_names_the_shared_libraries_that_its_programs_need(deb, tmp_path):
	said("dpkg-deb", "-x", deb, tmp_path)
	bill = json.loads(bill_of(deb))

	needed = set()
	for path in [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]:
		needed |= {(path.name, soname) for soname in re.findall(r"NEEDED.*\[(.+)\]", said("readelf", "-dW", path))}
	told = linked(bill, "DYNAMIC_LINK")
	assert {program for program, _ in told} == {program for program, _ in needed}
	assert {("libmtshim.so", "libc6"), ("mtctl", "libc6"), ("mtctl", "libjansson4")} <= told
	assert {library for program, library in told if program == "libmtshim.so"} == {"libc6"}
	depends = re.findall(r"([a-z0-9.+-]+) \(>=", said("dpkg-deb", "-f", deb, "Depends", "Recommends"))
	assert {library for _, library in told} >= set(depends), "what dpkg-shlibdeps has found is in it"


@pytest.mark.long
def test_a_package_built_without_jemalloc_has_none_in_its_fields_and_its_bill(tmp_path):
	copy = tmp_path / "tree"
	said("git", "clone", "-q", ROOT, copy)
	own = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "MT"))}

	said("make", "-s", "-j2", "JEMALLOC=none", "deb", cwd=copy, env=own)

	package, bill = next((copy / "dist").glob("*.deb")), json.loads(next((copy / "dist").glob("*_*.spdx.json")).read_text())
	assert said("dpkg-deb", "-f", package, "Static-Built-Using").strip() == ""
	assert "jemalloc" not in [one["name"] for one in bill["packages"]]
	assert bill["packages"][0]["licenseConcluded"] == "Apache-2.0"


# ---- what lies beside them, and what is refused ----

@pytest.mark.parametrize("made", ["deb", "dist"])
def test_sha256sums_has_every_file_of_the_release(request, made):
	folder = request.getfixturevalue(made).parent

	sums = dict(reversed(line.split()) for line in (folder / "SHA256SUMS").read_text().splitlines())
	files = [path for path in folder.iterdir() if path.name != "SHA256SUMS"]
	assert len(files) == 2
	for path in files:
		assert sums[path.name] == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def checkout(tmp_path):
	"""A clone that a test may change; its HEAD is ours."""
	copy = tmp_path / "clone"
	said("git", "clone", "-q", ROOT, copy)
	return copy


def make_dist(folder, version):
	return subprocess.run([folder / "scripts/dist", version], capture_output=True, text=True, timeout=120)


def test_a_tarball_is_of_the_commit_alone_whatever_lies_in_the_tree_and_git_is_set_to(checkout, dist):
	(checkout / "README.md").write_text("changed")
	(checkout / "new.c").write_text("int new;")
	attributes = checkout.parent / "attributes"
	attributes.write_text("*.md export-ignore\n")
	for words in (["core.autocrlf", "true"], ["tar.umask", "0077"], ["core.fileMode", "false"], ["core.attributesFile", attributes]):
		said("git", "config", *words, cwd=checkout)

	done = subprocess.run(["sh", "-c", f"umask 077; scripts/dist {VERSION}"], cwd=checkout, capture_output=True, text=True)

	assert done.returncode == 0 and "not committed: changes to 2 files" in done.stderr
	assert (checkout / "dist" / dist.name).read_bytes() == dist.read_bytes()


def test_a_tarball_of_a_version_that_is_not_committed_is_refused(checkout):
	done = make_dist(checkout, "9.9.9")

	assert done.returncode == 1 and "version 9.9.9 is not committed" in done.stderr and not (checkout / "dist").exists()


def test_an_unpacked_tarball_in_somebodys_repository_makes_no_tarball_of_that(dist, tmp_path):
	said("git", "init", "-q", tmp_path)
	with tarfile.open(dist) as tar:
		tar.extractall(tmp_path)

	done = make_dist(tmp_path / f"mtshim-{VERSION}", VERSION)

	assert done.returncode == 1 and "no git checkout of mtshim" in done.stderr


# ---- make release ----

def release(folder, *words):
	return subprocess.run([folder / "scripts/release", *words], env=dict(os.environ, WHEEL_ARCHES=""), capture_output=True, text=True, timeout=1200)


def test_a_release_is_refused_of_a_tree_that_is_not_clean(checkout):
	(checkout / "README.md").write_text("changed")

	done = release(checkout, VERSION)

	assert done.returncode == 1 and "not clean" in done.stderr and not (checkout / "dist").exists()


def test_a_release_is_refused_of_a_version_that_the_changelog_does_not_have(checkout):
	done = release(checkout, "9.9.9")

	assert done.returncode == 1 and "CHANGELOG.md has no heading" in done.stderr and not (checkout / "dist").exists()


@pytest.mark.long
def test_a_release_made_twice_has_the_same_bytes(checkout):
	done = release(checkout, "--twice", VERSION)

	assert done.returncode == 0, done.stderr
	names = {path.name for path in (checkout / "dist").iterdir()}
	assert "twice the same bytes" in done.stdout and "SHA256SUMS" in names
	assert {pathlib.Path(name).suffix for name in names} == {".xz", ".deb", ".json", ""}


def test_the_version_is_that_of_the_makefile_and_of_both_changelogs():
	packaged = re.match(r"mtshim \((\S+)\)", (ROOT / "packaging/debian/changelog").read_text())[1]
	told = re.search(r"^## (\d\S*) - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]

	assert VERSION == packaged == told
