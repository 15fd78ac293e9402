# versions.mk -- runs mtctl and the shim against older builds of each other from the git history; takes minutes. The integration ring has
# the same with forged files (tests/integration/test_versions.py).

.PHONY: check-versions
check-versions: all
	scripts/build-versions
	@$(PYTHON) -m pytest tests/versions
