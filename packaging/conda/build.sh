#!/bin/sh
# Builds and installs into $PREFIX over a jemalloc with a prefix. conda-build calls it; so does scripts/check-packaging, by hand.
# JEMALLOC_ARCHIVE, JEMALLOC_PREFIX: the static library (default: that of libjemalloc-local in the host environment).
set -eu
export JEMALLOC_ARCHIVE="${JEMALLOC_ARCHIVE:-$PREFIX/lib/libjemalloc_local_pic.a}"
export JEMALLOC_PREFIX="${JEMALLOC_PREFIX-local}"
export PKG_CONFIG_PATH="$PREFIX/lib/pkgconfig:${PKG_CONFIG_PATH:-}"
export CPATH="$PREFIX/include:${CPATH:-}" LIBRARY_PATH="$PREFIX/lib:${LIBRARY_PATH:-}"
make -j"${CPU_COUNT:-2}" all PREFIX="$PREFIX" PYTHON="${PYTHON:-python3}"
make install PREFIX="$PREFIX" PYTHON="${PYTHON:-python3}"
