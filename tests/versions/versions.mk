# versions.mk -- mtctl and the shim against older builds of each other, from the git history: minutes. `make check-integration`
# has the same by forged files (tests/integration/test_versions.py).

.PHONY: check-versions
check-versions: all
	scripts/build-versions
	@$(PYTHON) -m pytest tests/versions
