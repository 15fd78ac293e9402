"""Reads the stats file without mtctl, by the layouts of fake_shim.py."""
import struct
import time

import fake_shim

RECORD_FIELDS = ("number time_ns duration_ns purge_ns gc_ns gc_collected_count round request_seq rss_before_bytes rss_after_bytes "
                 "anon_before_bytes anon_after_bytes live_before_bytes live_after_bytes longest_hold_ns gpu_before_bytes gpu_after_bytes "
                 "reason level result gc_state merged gpu_state frameworks pressure_sources "
                 "pressure_level pressure_used_bytes pressure_limit_bytes pinned_before_bytes pinned_after_bytes gc_wait_ns rescued_pid").split()
REASONS = "idle live_drop settle round signal request api malloc_trim late_gc exit framework capture pressure rss_limit huge_pages rescue".split()
SOURCES = "limit events stall device rss".split()
FIELDS_AT = fake_shim.HEAD.size
HEAD_BYTES = FIELDS_AT + 8 * len(fake_shim.FIELDS) + 8
LIMIT_REPORTS_AT = (HEAD_BYTES + 64 * fake_shim.SETTING.size + fake_shim.DEVICES_COUNT * fake_shim.DEVICE.size +
             fake_shim.OOMS_COUNT * fake_shim.OOM.size)
RECORDS_AT = LIMIT_REPORTS_AT + fake_shim.LIMIT_REPORTS_COUNT * fake_shim.LIMIT_REPORT.size + fake_shim.CLASSES_COUNT * fake_shim.CLASS.size


def _read(mt_dir, pid):
	"""Returns the file; empty where there is none, or not all of it yet."""
	for file in mt_dir.glob(f"{pid}-*.stats"):
		return file.read_bytes()
	return b""


def figures(mt_dir, pid):
	data = _read(mt_dir, pid)
	if len(data) < HEAD_BYTES:
		return {}
	values = struct.unpack_from(f"={len(fake_shim.FIELDS)}Q", data, FIELDS_AT)
	return dict(zip(fake_shim.FIELDS, values))


def records(mt_dir, pid):
	"""Returns the cleanups, oldest first; reason and sources by name."""
	data, found = _read(mt_dir, pid), []
	for slot in range(fake_shim.CLEANUPS_COUNT):
		at = RECORDS_AT + slot * fake_shim.RECORD.size
		if at + fake_shim.RECORD.size > len(data):
			break
		record = dict(zip(RECORD_FIELDS, fake_shim.RECORD.unpack_from(data, at)))
		if record["number"]:
			record["reason"] = REASONS[record["reason"]]
			record["level"] = ["purge", "light", "heavy"][record["level"]]
			record["sources"] = [name for bit, name in enumerate(SOURCES) if record["pressure_sources"] & 1 << bit]
			found.append(record)
	return sorted(found, key=lambda record: record["number"])


def limit_reports(mt_dir, pid):
	data, found = _read(mt_dir, pid), []
	for slot in range(fake_shim.LIMIT_REPORTS_COUNT):
		at = LIMIT_REPORTS_AT + slot * fake_shim.LIMIT_REPORT.size
		if at + fake_shim.LIMIT_REPORT.size > len(data):
			break
		*numbers, advice = fake_shim.LIMIT_REPORT.unpack_from(data, at)
		limit_report = dict(zip(fake_shim.LIMIT_REPORT_FIELDS, numbers), advice=advice.rstrip(b"\0").decode())
		if limit_report["number"]:
			found.append(limit_report)
	return sorted(found, key=lambda limit_report: limit_report["number"])


def wait_records(mt_dir, pid, which, timeout=10):
	"""Waits for a record that `which` selects; returns all of these, or an empty list."""
	end = time.monotonic() + timeout
	while time.monotonic() < end:
		found = [record for record in records(mt_dir, pid) if which(record)]
		if found:
			return found
		time.sleep(0.05)
	return []
