#!/usr/bin/python3
"""sqlite3, the command line, with a database in memory: filled, indexed, asked, thinned out, dropped, twice over.

The shell then waits for its next command, which is the idle time. Its answers go to a pipe that `.output` opens and
closes: what it prints on a plain pipe stays in its buffer until it ends.
"""
import os

import realprog

ROUND = """
create table event (id integer primary key, owner integer, kind text, weight real, note text);
insert into event with recursive n(i) as (select 1 union all select i + 1 from n where i < {rows})
  select i, i * 2654435761 % 4294967296 % {owners}, 'kind' || (i * 40503 % 65536 % 37), (i * 69069 % 1000) / 7.0,
    substr(replace(hex(zeroblob(40)), '0', 'a line of it '), 1, 8 + i * 7919 % 900) || i from n;
create table owner (id integer primary key, name text, joined text);
insert into owner with recursive n(i) as (select 0 union all select i + 1 from n where i < {owners} - 1)
  select i, 'owner number ' || (i * 7919 % {owners}), date('2020-01-01', '+' || (i % 900) || ' days') from n;
create index event_owner on event (owner, weight);
create index event_note on event (note);
select count(*), sum(total), max(top)
  from (select kind, count(*) total, max(weight) top from event group by kind, owner % 50);
select count(*) from (select o.name, count(*) c from event e join owner o on o.id = e.owner group by o.name order by c desc);
select count(distinct substr(note, 3, 9)) from event;
create table kept as select * from event where owner % 10 = {round} order by note;
delete from event where id % 2 = 0;
update event set note = note || ' and ' || kind where id % 8 = 1;
drop index event_note;
drop table event;
drop table owner;
vacuum;
"""


def main():
	options = realprog.parse_options(__doc__, rounds=2)
	realprog.require("sqlite3")
	reader, writer = os.pipe()
	program = realprog.Program(["sqlite3", "-batch", ":memory:"], pass_fds=(writer,))
	rows = max(1000, int(80_000 * options.scale))
	for number in range(options.rounds):
		program.say_input(ROUND.format(rows=rows, owners=max(20, rows // 20), round=number) + "drop table kept;\n" * (number % 2)
			+ f"alter table kept rename to kept_{number};\n" * (1 - number % 2))
	program.say_input(f".output /dev/fd/{writer}\n.print done\n.output\n")
	with os.fdopen(reader, "rb") as said:
		work_s = program.wait_for(said, "done")
	os.close(writer)
	realprog.lie_idle(options.idle)
	realprog.print_figures(work_s=work_s, **program.finish())


if __name__ == "__main__":
	main()
