"""What `mtctl` stat, advise, doctor and diagnose say of one process within a few seconds, and where two of them contradict each other.
"""
import json

# Verdicts that one look cannot see: they need a collection, an emptied cache, the sums of a tree, or a change over time.
NEEDS_MORE = {"python-cycles", "python-gc-off", "gpu-fragmentation", "copy-on-write", "growth"}


def look(run, pid):
	"""run(words...) is a finished `mtctl`. Returns its answers as JSON, None where there are no figures (asleep), and the text of stat."""
	def ask(*words):
		done = run(*words, pid, "--json")
		return json.loads(done.stdout) if done.stdout else None
	return {"stat": ask("stat"), "advise": ask("advise"), "doctor": ask("doctor"), "text": run("stat", pid).stdout, "stat_again": ask("stat")}


def of_one_look(seen):
	"""Where stat, advise and doctor contradict each other."""
	if not seen["stat"] or not seen["advise"]:
		return []
	# What comes or goes while they look, one after the other, is no contradiction.
	looks = [seen["stat"], seen["stat_again"] or seen["stat"]]
	begun, found = ({one["id"] for one in look["odd"]} for look in looks)
	words = {one["id"]: one["verdict"] or one["id"] for look in looks for one in look["odd"]}
	topics = {one["topic"] for one in seen["advise"]["advice"]}
	doctor = " ".join(check["text"] for check in seen["doctor"]["checks"] if check["finding"] != "ok")
	wrong = [f"advise names '{topic}', stat does not" for topic in topics - found - begun]
	wrong += [f"advise names '{topic}', doctor does not" for topic in topics & found if f"{words.get(topic)}: " not in doctor]
	if begun & found and "odd        nothing" in seen["text"]:
		wrong.append(f"stat prints 'nothing', and its JSON {begun & found}")
	return wrong


def of_the_verdict(seen, report):
	"""Whether one look names the verdict, unless it cannot see it."""
	if not seen["stat"] or report["verdict"] in NEEDS_MORE | {"healthy", "unknown"}:
		return []
	found = {one["verdict"] or one["id"] for one in seen["stat"]["odd"]}
	return [] if report["verdict"] in found else [f"diagnose names '{report['verdict']}', stat {found or 'nothing'}"]


def with_diagnosis(seen, report, tried):
	"""Where one look contradicts a diagnosis of the same state. tried: the diagnosis has trimmed, so that what it returned is gone."""
	if not seen["stat"] or not report["awake"] or report["ended"]:
		return []
	causes = {one["verdict"] for one in report["findings"]}
	also = {one["id"] for one in report["odd"]}
	word = {one["id"]: one["verdict"] or one["id"] for one in seen["stat"]["odd"]}
	verdict = report["verdict"]
	weighed = [one["verdict"] or one["id"] for one in seen["stat"]["odd"] if one["finding"] == "warn"]
	wrong = [f"diagnose is healthy, stat warns of '{one}'" for one in weighed if verdict == "healthy" and one not in also]
	if verdict == "healthy" and "nothing to do" in report["title"] and report["odd"]:
		wrong.append(f"diagnose has 'nothing to do', and names {also}")
	wrong += [f"advise names '{one['topic']}', diagnose does not" for one in seen["advise"]["advice"]
	          if word.get(one["topic"], one["topic"]) not in also | causes and not tried]
	return wrong
