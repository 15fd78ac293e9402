#!/usr/bin/python3
"""A process that seems to run under the shim and writes the file formats of stats_layout.h. The tests of mtctl need replies that the real
shim never gives: late, forged, of another version, with hostile text.

  fake_shim.py LIBRARY DIR [JSON]    prints "ready" and then serves requests until stdin ends

LIBRARY is mapped executable, so that maps show it. Keys of JSON: awake, version, deaf, broken (spoils the checksum),
text (put into every text field), freed_mb, result, gc_state, request_error, merged, other_pid. For the GPU:
cuda (the head's text), driver_version, devices (each an object of fields, name, pci, mode), ooms (each an object of
fields), devices_count and ooms_count (lies about how many there are), gpu_before_mb, gpu_after_mb, gpu_state, frameworks,
pinned_before_mb, pinned_after_mb
(of a cleanup's record), gc_wait_ms (how long it waited for gc, in its duration), values (fields of the snapshot). Then: samples and limit_reports (each an object of fields), classes
(pairs of block size and live blocks), limit_source, pressure_sources, pressure_level, pressure_used_mb, pressure_limit_mb
(of a cleanup's record), reason (its number), settings (value and origin by name), rank, world_size, cleanups
(how many by the number of their reason). blocks (the file of blocks that a snapshot leaves, in hex), blocks_copy (it is a copy of
this one), held_mb (memory that it really holds), blocks_mode (its mode,
octal), blocks_link (it is a link to this path), blocks_lost (so many snapshots leave none),
stack_start (that of another program than it is). version: all are laid out as the present one; record_more (so many bytes more in a
record, under the present version), recordless (a cleanup leaves no record).
"""
import json
import mmap
import os
import pathlib
import re
import struct
import sys
import threading
import time

SHIM = pathlib.Path(__file__).resolve().parents[2] / "shim"
TABLE = (SHIM / "core" / "figures.def").read_text()


def listed(macro, columns=r"(\w+),"):
	"""The first column of a list of figures.def; the matches of `columns` in its rows."""
	return re.findall(rf"^\s*X\({columns}", TABLE.partition(f"#define {macro}(X)")[2].partition("#define")[0], re.MULTILINE)


def in_file(macro):
	"""The names of a list with columns `bits, name`, and its format."""
	rows = listed(macro, r"(\d+), (\w+),")
	return [name for _, name in rows], "".join({"64": "Q", "32": "I"}[bits] for bits, _ in rows)


FIELDS, DEVICE_FIELDS, SAMPLE_FIELDS = listed("MT_STATS_FIELDS"), listed("MT_DEVICE_FIELDS"), ["time_ns", *listed("MT_SAMPLE_FIELDS")]
(OOM_FIELDS, OOM_FORMAT), (LIMIT_REPORT_FIELDS, LIMIT_REPORT_FORMAT) = in_file("MT_OOM_FIELDS"), in_file("MT_LIMIT_REPORT_FIELDS")
MAGIC, CONTROL_MAGIC = 0x31737461747374, 0x316c727463746d
MB = 1 << 20
DEVICE, OOM = struct.Struct(f"={len(DEVICE_FIELDS)}Q64s32s16s"), struct.Struct(f"={OOM_FORMAT}48s")
RECORD, SAMPLE, SETTING = struct.Struct("=" + in_file("MT_CLEANUP_FIELDS")[1]), struct.Struct(f"={len(SAMPLE_FIELDS)}Q"), struct.Struct("=24s72s40s")
HEAD = struct.Struct("=Q14I3Q16s32s32s160sQ256sQ64s6Q128sQ16s32s32QQ")
LIMIT_REPORT, CLASS = struct.Struct(f"={LIMIT_REPORT_FORMAT}160s"), struct.Struct("=2Q")
VERSION, DEVICES_COUNT, OOMS_COUNT, LIMIT_REPORTS_COUNT, CLASSES_COUNT, REASONS_COUNT, CLEANUPS_COUNT = 11, 16, 4, 4, 256, 32, 256
CONTROL = struct.Struct("=QIIQII32s96s")
JEMALLOC = 3  # of enum mt_mode
TRIM, ROUND, SET, RESET_PEAK, PUBLISH = 1, 2, 3, 4, 5
SNAPSHOT = 8


def checksum(data):
	total = 0xcbf29ce484222325
	for (word,) in struct.iter_unpack("=Q", data):
		total = ((total ^ word) * 0x100000001b3) & (1 << 64) - 1
	return total


def stat_field(number, pid="self"):
	return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[number - 3])


def start_ticks(pid="self"):
	return stat_field(22, pid)


class Fake:
	def __init__(self, directory, options):
		self.options = options
		self.pidns = os.stat("/proc/self/ns/pid").st_ino
		self.name = f"{os.getpid()}-{start_ticks()}-{self.pidns}"
		self.stats = directory / (self.name + ".stats")
		self.control = directory / (self.name + ".control")
		self.values = dict.fromkeys(FIELDS, 0) | {"rss_bytes": 300 * MB, "rss_anon_bytes": 250 * MB, "heap_live_bytes": 200 * MB,
		                                          "heap_idle_bytes": 50 * MB, "heap_dirty_bytes": 60 * MB, "heap_alloc_count": 9,
		                                          "heap_arenas_count": 4, "heap_thread_cache_bytes": 5000, "signal_disposition": 1, "uptime_ms": 1234,
		                                          **options.get("values", {})}
		self.settings = {"gc_rounds": ["0", "default"], "tick_ms": ["100", "environment"], **options.get("settings", {})}
		self.records = []

	def head(self):
		text, options = self.options.get("text", "").encode("latin-1"), self.options
		def word(plain):
			return text or plain
		size = HEAD.size + 8 * len(FIELDS) + 8
		ooms = options.get("ooms", [])
		head = HEAD.pack(MAGIC, options.get("version", VERSION), size, len(FIELDS), RECORD.size + options.get("record_more", 0),
		                 SAMPLE.size, len(self.settings), DEVICE.size,
		                 options.get("devices_count", len(options.get("devices", []))), OOM.size,
		                 LIMIT_REPORT.size, CLASS.size, len(options.get("classes", [])), 0,
		                 options.get("driver_version", 0), options.get("other_pid", os.getpid()), start_ticks(),
		                 self.pidns, b"0.1.0", word(b"fake"), word(b"jemalloc"), word(b"libmtshim.so, embedded"),
		                 JEMALLOC, word(b"narenas:2"), 0, word(options.get("cuda", "").encode()),
		                 time.time_ns(), len(self.records), max(len(options.get("samples", [])), 1),
		                 options.get("ooms_count", max([oom["number"] for oom in ooms], default=0)),
		                 max([limit_report["number"] for limit_report in options.get("limit_reports", [])], default=0), time.time_ns(),
		                 word(options.get("limit_source", "").encode()), options.get("world_size", 0),
		                 word(options.get("rank", "").encode()), word(b"RANK" if "rank" in options else b""),
		                 *[options.get("cleanups", {}).get(str(reason), 0) for reason in range(REASONS_COUNT)],
		                 options.get("stack_start", stat_field(28)))
		head += struct.pack(f"={len(FIELDS)}Q", *(self.values[name] for name in FIELDS))
		return head + struct.pack("=Q", checksum(head) ^ bool(options.get("broken")))

	def gpu(self):
		text = self.options.get("text")
		def word(plain):
			return (text or plain).encode("latin-1")
		devices = b""
		for device in self.options.get("devices", []):
			devices += DEVICE.pack(*(device.get(name, 0) for name in DEVICE_FIELDS), word(device.get("name", "")),
			                       word(device.get("pci", "")), word(device.get("mode", "")))
		slots = [bytes(OOM.size)] * OOMS_COUNT
		for oom in self.options.get("ooms", []):
			slots[oom.get("slot", (oom["number"] - 1) % OOMS_COUNT)] = OOM.pack(
				*(oom.get(name, 0) for name in OOM_FIELDS), word(oom.get("function", "cuMemAlloc_v2")))
		return devices.ljust(DEVICES_COUNT * DEVICE.size, b"\0") + b"".join(slots) + self.limit_reports()

	def limit_reports(self):
		text = self.options.get("text")
		slots = [bytes(LIMIT_REPORT.size)] * LIMIT_REPORTS_COUNT
		for limit_report in self.options.get("limit_reports", []):
			slots[(limit_report["number"] - 1) % LIMIT_REPORTS_COUNT] = LIMIT_REPORT.pack(
				*(limit_report.get(name, 0) for name in LIMIT_REPORT_FIELDS), (text or limit_report.get("advice", "")).encode("latin-1"))
		classes = b"".join(CLASS.pack(*pair) for pair in self.options.get("classes", []))
		return b"".join(slots) + classes.ljust(CLASSES_COUNT * CLASS.size, b"\0")

	def body(self):
		text = self.options.get("text")
		def word(plain):
			return (text or plain).encode("latin-1")
		data = b"".join(SETTING.pack(name.encode(), word(value), word(origin))
		                for name, (value, origin) in self.settings.items()).ljust(64 * SETTING.size, b"\0")
		data += self.gpu()
		slots = [bytes(RECORD.size)] * CLEANUPS_COUNT
		for number, record in enumerate(self.records, 1):
			slots[(number - 1) % CLEANUPS_COUNT] = RECORD.pack(number, *record)
		plain = {"time_ns": time.time_ns(), "rss_bytes": 300 * MB, "anon_bytes": 250 * MB, "live_bytes": 200 * MB,
		         "idle_bytes": 50 * MB, "dirty_bytes": 60 * MB, "gpu_reserved_bytes": self.values["gpu_reserved_bytes"],
		         "gpu_allocated_bytes": self.values["gpu_allocated_bytes"], "rounds_count": 0, "pressure_level": 0}
		sample = b"".join(SAMPLE.pack(*((plain | one)[name] for name in SAMPLE_FIELDS))
		                  for one in self.options.get("samples", [plain]))
		return data + b"".join(slots) + sample.ljust(1024 * SAMPLE.size, b"\0")

	def write(self):
		data = self.head() + self.body()
		descriptor = os.open(self.stats, os.O_WRONLY | os.O_CREAT, 0o600)
		os.pwrite(descriptor, data, 0)
		os.close(descriptor)

	def add_record(self, seq, level, merged):
		before, freed = self.values["rss_bytes"], self.options.get("freed_mb", 0) * MB
		if not merged:
			self.values["rss_bytes"] = before - freed
		state = self.options.get("gc_state", 1)
		self.records.append((time.time_ns(), 12_300_000 + self.options.get("gc_wait_ms", 0) * 1_000_000, 10_000_000, 2_000_000, 1234, 0, seq, before, before - freed,
		                     before, before - freed, *[self.options.get("live_mb", 200) * MB] * 2, 0, self.options.get("gpu_before_mb", 0) * MB,
		                     self.options.get("gpu_after_mb", 0) * MB, self.options.get("reason", 5), level,
		                     self.options.get("result", int(freed > 0)), state, int(merged),
		                     self.options.get("gpu_state", 0), self.options.get("frameworks", 0),
		                     self.options.get("pressure_sources", 0), self.options.get("pressure_level", 0),
		                     self.options.get("pressure_used_mb", 0) * MB,
		                     self.options.get("pressure_limit_mb", 0) * MB,
		                     self.options.get("pinned_before_mb", 0) * MB, self.options.get("pinned_after_mb", 0) * MB,
		                     self.options.get("gc_wait_ms", 0) * 1_000_000, self.options.get("rescued_pid", 0)))

	def leave_blocks(self):
		file = self.stats.with_suffix(".blocks")
		file.unlink(missing_ok=True)
		self.options["blocks_lost"] = self.options.get("blocks_lost", 0) - 1
		if self.options["blocks_lost"] >= 0:
			return
		if "blocks_link" in self.options:
			file.symlink_to(self.options["blocks_link"])
		elif "blocks_copy" in self.options:
			file.write_bytes(pathlib.Path(self.options["blocks_copy"]).read_bytes())
			file.chmod(0o600)
		elif "blocks" in self.options:
			file.write_bytes(bytes.fromhex(self.options["blocks"]))
			file.chmod(int(self.options.get("blocks_mode", "600"), 8))

	def serve_one(self, seq, kind, level, name, value):
		self.values["request_error"] = self.options.get("request_error", 0)
		if kind == TRIM and not self.values["request_error"] and not self.options.get("recordless"):
			if self.options.get("merged"):
				self.add_record(seq, level, True)
			self.add_record(0 if self.options.get("merged") else seq, level, False)
		elif kind == ROUND:
			self.values["rounds_count"] += 1
		elif kind == SET and not self.values["request_error"]:
			self.settings[name] = [value, "mtctl set"]
		elif kind == RESET_PEAK:
			for name in [name for name in FIELDS if name.endswith("_peak_bytes") and name != "rss_peak_bytes"]:
				now = name.replace("_peak_bytes", "_bytes")
				self.values[name] = self.values[now]
		elif kind == SNAPSHOT:
			self.leave_blocks()
		self.values["request_seq"] = seq
		self.values["requests_count"] += 1
		self.write()

	def serve(self):
		"""Reads the control file in short steps, cheaply: many fakes may wait at once."""
		file = os.open(self.control, os.O_RDONLY)
		last_word = last_seq = 0
		while True:
			data = os.pread(file, CONTROL.size, 0)
			if len(data) == CONTROL.size:
				_, _, word, seq, kind, level, name, value = CONTROL.unpack(data)
				if word != last_word and seq > last_seq:
					last_word, last_seq = word, seq
					time.sleep(self.options.get("slow_s", 0))
					self.serve_one(seq, kind, level, name.rstrip(b"\0").decode(), value.rstrip(b"\0").decode())
			time.sleep(0.005)


def main():
	library, directory = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
	options = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
	with library.open("rb") as file:
		kept = mmap.mmap(file.fileno(), 4096, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_EXEC)
	held = b"x" * (options.get("held_mb", 0) * MB)
	if options.get("awake", True):
		fake = Fake(directory, options)
		control = CONTROL.pack(CONTROL_MAGIC, options.get("version", VERSION), 0, 0, 0, 0, b"", b"")
		fake.control.write_bytes(control.ljust(4096, b"\0"))
		fake.control.chmod(0o600)
		fake.write()
		if not options.get("deaf"):
			threading.Thread(target=fake.serve, daemon=True).start()
	print("ready", flush=True)
	sys.stdin.read()
	kept.close()
	del held


if __name__ == "__main__":
	main()
