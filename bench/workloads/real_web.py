#!/usr/bin/python3
"""A web server with an application of a few lines, in bursts of requests with pauses; then it waits for clients.

--server puma: Ruby, 16 threads in one process; sinatra: the same with an application of Sinatra. uvicorn: Python, FastAPI, whose
answer is checked and written by pydantic. gunicorn: Python, 2 workers of 8 threads. php: PHP's own server and node: one process
each. The application answers with JSON of rows that it makes up: mostly 50, every 20th time 20,000. The client is the driver, outside
of the candidate. cpu_s and minor_faults are those of all processes of the server.
"""
import concurrent.futures
import http.client
import pathlib
import signal
import socket
import subprocess
import tempfile
import time

import realprog

CLIENTS = 8
BURSTS = 4
REQUESTS = 150  # of each client in a burst
PAUSE_S = 1.5
PUMA = """
require "json"
run(lambda do |env|
  rows = env["QUERY_STRING"][/\\d+/].to_i
  body = JSON.generate((1..rows).map { |i| {"id" => i, "name" => "row #{i}", "note" => "a note of it " * (1 + i % 7)} })
  [200, {"content-type" => "application/json", "content-length" => body.bytesize.to_s}, [body]]
end)
"""
SINATRA = """
require "json"
require "sinatra/base"
class Application < Sinatra::Base
  set :environment, :production
  get "/" do
    content_type :json
    JSON.generate((1..params["rows"].to_i).map { |i| {id: i, name: "row #{i}", note: "a note of it " * (1 + i % 7)} })
  end
end
run Application
"""
FASTAPI = """
import fastapi
import pydantic
class Row(pydantic.BaseModel):
	id: int
	name: str
	note: str
app = fastapi.FastAPI()
@app.get("/", response_model=list[Row])
def answer(rows: int):
	return [Row(id=i, name=f"row {i}", note="a note of it " * (1 + i % 7)) for i in range(rows)]
"""
GUNICORN = """
import json
def app(environ, start_response):
	rows = int(environ["QUERY_STRING"].partition("=")[2])
	body = json.dumps([{"id": i, "name": f"row {i}", "note": "a note of it " * (1 + i % 7)} for i in range(rows)]).encode()
	start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
	return [body]
"""
PHP = """<?php
$rows = [];
for ($i = 0; $i < (int)$_GET["rows"]; $i++)
	$rows[] = ["id" => $i, "name" => "row $i", "note" => str_repeat("a note of it ", 1 + $i % 7)];
$body = json_encode($rows);
header("Content-Type: application/json");
header("Content-Length: " . strlen($body));
echo $body;
"""
NODE = """
require("http").createServer((request, response) => {
  const rows = Number(request.url.split("=")[1]), made = [];
  for (let i = 0; i < rows; i++) made.push({id: i, name: `row ${i}`, note: "a note of it ".repeat(1 + i % 7)});
  const body = Buffer.from(JSON.stringify(made));
  response.writeHead(200, {"Content-Type": "application/json", "Content-Length": body.length}).end(body);
}).listen(Number(process.argv[2]), "127.0.0.1");
"""


def puma(folder, port, application=PUMA):
	(folder / "config.ru").write_text(application)
	return ["puma", "--quiet", "--threads", "16:16", "--bind", f"tcp://127.0.0.1:{port}", str(folder / "config.ru")]


def sinatra(folder, port):
	return puma(folder, port, SINATRA)


def uvicorn(folder, port):
	(folder / "application.py").write_text(FASTAPI)
	return ["/usr/bin/python3", "-m", "uvicorn", "--log-level", "error", "--port", str(port), "--app-dir", str(folder), "application:app"]


def gunicorn(folder, port):
	(folder / "application.py").write_text(GUNICORN)
	return ["gunicorn", "--workers", "2", "--threads", "8", "--log-level", "error", "--bind", f"127.0.0.1:{port}", "--chdir",
		str(folder), "application:app"]


def php(folder, port):
	(folder / "index.php").write_text(PHP)
	return ["php", "-S", f"127.0.0.1:{port}", "-t", str(folder)]


def node(folder, port):
	(folder / "server.js").write_text(NODE)
	return ["node", str(folder / "server.js"), str(port)]


SERVERS = {"puma": puma, "sinatra": sinatra, "uvicorn": uvicorn, "gunicorn": gunicorn, "php": php, "node": node}


def free_port():
	with socket.socket() as taken:
		taken.bind(("127.0.0.1", 0))
		return taken.getsockname()[1]


def wait_ready(port):
	for _ in range(600):
		with socket.socket() as door:
			if door.connect_ex(("127.0.0.1", port)) == 0:
				return
		time.sleep(0.05)
	raise SystemExit("the server did not start")


def ask(port, client, requests):
	"""One client's requests of a burst, each over a connection of its own. Returns the bytes of the answers."""
	received = 0
	for number in range(requests):
		rows = 20_000 if (client * 7 + number) % 20 == 0 else 50
		connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
		connection.request("GET", f"/?rows={rows}")
		answer = connection.getresponse()
		body = answer.read()
		connection.close()
		if answer.status != 200 or body.count(b'"id"') != rows:
			raise SystemExit(f"status {answer.status}, {body.count(b'id')} rows of {rows}")
		received += len(body)
	return received


def main():
	options = realprog.parse_options(__doc__, server="puma", bursts=BURSTS)
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-") as name:
		port = free_port()
		command = SERVERS[options.server](pathlib.Path(name), port)
		realprog.require(command[0])
		program = realprog.Program(command, stderr=subprocess.DEVNULL)
		wait_ready(port)
		requests = max(2, int(REQUESTS * options.scale))
		begun = time.monotonic()
		with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
			for burst in range(options.bursts):
				time.sleep(PAUSE_S if burst else 0)
				received = sum(pool.map(lambda client: ask(port, client, requests), range(CLIENTS)))
		work_s = time.monotonic() - begun - PAUSE_S * (options.bursts - 1)
		realprog.lie_idle(options.idle)
		used = program.finish(signal.SIGINT, expected=(0, 1, -signal.SIGINT, 128 + signal.SIGINT))
	realprog.print_figures(work_s=work_s, **used, answers_mib=received / 2**20)


if __name__ == "__main__":
	main()
