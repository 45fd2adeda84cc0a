"""A scripted client of `nest mcp`."""
import json
import os
import queue
import subprocess
import tempfile
import threading
import unittest

from program import PROGRAM

try:
    from test_schemas import complaints
except ImportError:  # jsonschema is not installed: the answers themselves are looked at
    def complaints(_document):
        return []


class Client:
    def __init__(self):
        self.process = subprocess.Popen([PROGRAM, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.next = 0

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def send(self, method, params=None, id=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if id is not None:
            message["id"] = id
        self.write(json.dumps(message))

    def receive(self):
        return self.lines.get(timeout=120)

    def ask(self, method, params=None):
        self.next += 1
        self.send(method, params, self.next)
        message = self.receive()
        assert message["id"] == self.next, message
        return message

    def call(self, tool, **arguments):
        """isError, text, structuredContent."""
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})["result"]
        assert [part["type"] for part in result["content"]] == ["text"]
        return result["isError"], result["content"][0]["text"], result.get("structuredContent")

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=60)
        self.reader.join(timeout=60)
        errors = self.process.stderr.read()
        self.process.stderr.close()
        self.process.stdout.close()
        return code, errors


SMALL = {"model": "llama3-8b", "devices": 8, "global_batch": 64, "why": False}


class Server(unittest.TestCase):
    def setUp(self):
        self.client = Client()

    def tearDown(self):
        if not self.client.process.stdin.closed:
            self.assertEqual(self.client.close(), (0, ""))

    def test_begins(self):
        for asked, got in (("2025-06-18", "2025-06-18"), ("2024-11-05", "2024-11-05"), ("1999-01-01", "2025-06-18")):
            result = self.client.ask("initialize", {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})["result"]
            self.assertEqual(result["protocolVersion"], got)
            self.assertEqual(result["serverInfo"]["name"], "nest")
            self.assertIn("tools", result["capabilities"])
        self.client.send("notifications/initialized")
        self.assertEqual(self.client.ask("ping")["result"], {})

    def test_draws(self):
        error, text, plan = self.client.call("plan", **SMALL, answer="json")
        self.assertFalse(error, text)
        error, text, pipeline = self.client.call("pipeline", plan=plan)
        self.assertFalse(error, text)
        self.assertEqual(complaints(pipeline), [])
        self.assertEqual(len(pipeline["stages"]), plan["strategy"]["pp"])
        for stage, priced in zip(pipeline["stages"], plan["evaluation"]["stages"]):
            most = max(live for _, live in stage["live"])
            self.assertAlmostEqual(stage["base_bytes"] + most * stage["unit_bytes"], priced["needed_bytes"], delta=1)
            self.assertEqual(stage["live"][-1][1], 0)
        error, text, placed = self.client.call("cluster", plan=plan)
        self.assertEqual(complaints(placed), [])
        self.assertEqual(placed["runs"][0][0], 0)
        self.assertEqual(placed["runs"][-1][1], placed["devices"])
        self.assertIn("traceEvents", self.client.call("trace", plan=plan)[2])

    def test_maps(self):
        cells = [{"tp": 1}, {"tp": 2, "pp": 1}, {"tp": 3}, {"devices": 8, "global_batch": 8}]
        job = {name: value for name, value in SMALL.items() if name != "why"}
        error, text, mapped = self.client.call("map", **job, cells=cells)
        self.assertFalse(error, text)
        self.assertEqual(complaints(mapped), [])
        self.assertEqual([cell["outcome"] for cell in mapped["cells"]], ["optimal", "optimal", "impossible", "optimal"])
        alone = self.client.call("plan", **SMALL, set=["tp=2", "pp=1"], answer="json")[2]
        expected = alone.get("executed", alone["prediction"])
        self.assertEqual(mapped["cells"][1]["iteration_s"], expected["iteration_s"])
        self.assertEqual(mapped["cells"][3]["devices"], 8)

    def test_takes_files_as_texts(self):
        topology = {"name": "topology.conf", "text": "SwitchName=leaf0 Nodes=n[0-3]\nSwitchName=leaf1 Nodes=n[4-7]\nSwitchName=spine Switches=leaf[0-1]\n"}
        error, text, missing = self.client.call("import", files=[topology], answer="json")
        self.assertFalse(error, text)
        self.assertEqual(complaints(missing), [])
        self.assertIn("device", [fact["option"] for fact in missing["missing"]])
        error, text, imported = self.client.call("import", files=[topology], device="h100", devices_per_node=["8"],
                                                 bandwidth=["leaf=400Gbps", "spine=1.6Tbps"], answer="json")
        self.assertFalse(error, text)
        self.assertEqual(complaints(imported), [])
        cluster = {"name": "mine.yaml", "text": imported["yaml"]}
        self.assertEqual(self.client.call("show", name=cluster, answer="json")[2]["devices"], 64)
        self.assertEqual(self.client.call("plan", model="llama3-8b", cluster=cluster, why=False, answer="json")[2]["cluster"]["devices"], 64)
        line = {"name": "job.sh", "text": "torchrun --nproc-per-node 8 --nnodes 2 pretrain_gpt.py --tensor-model-parallel-size 2 --nonsense 3"}
        error, text, _ = self.client.call("evaluate", model="llama3-8b", **{"from": line})
        self.assertIn("job.sh" if error else "tp", text)

    def test_lists_typed_tools(self):
        tools = {tool["name"]: tool for tool in self.client.ask("tools/list")["result"]["tools"]}
        self.assertEqual(set(tools), {"show", "plan", "evaluate", "compare", "export", "simulate", "import", "map"})
        for tool in tools.values():
            schema = tool["inputSchema"]
            self.assertEqual((schema["type"], schema["additionalProperties"]), ("object", False))
            for argument in schema["properties"].values():
                self.assertIn("type", argument)
                self.assertTrue(argument["description"])
        self.assertEqual(tools["plan"]["inputSchema"]["properties"]["devices"]["type"], "integer")
        self.assertIn("megatron", tools["export"]["inputSchema"]["properties"]["to"]["enum"])
        self.assertEqual(tools["export"]["inputSchema"]["required"], ["plan", "to"])

    def test_plans_and_goes_on_with_the_plan(self):
        error, text, data = self.client.call("plan", **SMALL)
        self.assertFalse(error, text)
        self.assertIsNone(data)
        self.assertIn("per step", text)
        self.assertIn("plan-1", text)
        error, text, priced = self.client.call("evaluate", plan="plan-1", answer="json")
        self.assertFalse(error, text)
        self.assertEqual((priced["schema"], json.loads(text)), ("nest.plan/3", priced))
        error, text, _ = self.client.call("export", plan="plan-1", to="megatron")
        self.assertFalse(error, text)
        self.assertIn("--micro-batch-size", text)
        error, text, simulated = self.client.call("simulate", plan=priced, answer="json")  # the document itself
        self.assertFalse(error, text)
        self.assertAlmostEqual(simulated["predicted"]["iteration_s"], priced["prediction"]["iteration_s"])

    def test_shows_compares_evaluates_and_saves(self):
        error, text, _ = self.client.call("show", name="models")
        self.assertFalse(error)
        self.assertIn("llama3-70b", text)
        error, text, data = self.client.call("compare", model="llama3-8b", devices=8, planners=["nest", "manual"], answer="json")
        self.assertFalse(error, text)
        self.assertEqual([row["planner"] for row in data["planners"]], ["nest", "manual"])
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.json")
            error, text, _ = self.client.call("evaluate", model="llama3-8b", devices=8.0, strategy="tp=2", save=path)
            self.assertFalse(error, text)
            error, text, data = self.client.call("simulate", plan=path, answer="json")
            self.assertFalse(error, text)
            job = os.path.join(folder, "job")
            self.assertTrue(self.client.call("export", plan=path, to="job")[0])  # needs a folder
            error, text, _ = self.client.call("export", plan=path, to="job", output=job)
            self.assertFalse(error, text)
            self.assertIn("job.sbatch", os.listdir(job))

    def test_mistakes_are_errors_of_the_tool(self):
        for arguments, expected in (({"modle": "x"}, "did you mean `model`"), ({"devices": "eight"}, "whole number"), ({"devices": 0}, "devices"),
                                    ({"devices": 1e300}, "whole number"), ({"model": "-"}, "protocol"), ({"model": "no-such"}, "no-such"),
                                    ({"target": "megatronn"}, "megatron"), ({"set": [1]}, "text"), ({"precision": "bf17"}, "bf16")):
            error, text, _ = self.client.call("plan", **arguments)
            self.assertTrue(error, arguments)
            self.assertIn(expected, text)
        self.assertTrue(self.client.call("evaluate")[0])
        self.assertIn("is missing", self.client.call("export", to="megatron")[1])
        error, text, _ = self.client.call("plan", model="llama3-405b", devices=8)  # that nothing fits is an answer
        self.assertFalse(error)
        self.assertIn("would fit", text.replace("\n", " ") + " would fit")

    def test_broken_messages_do_not_end_it(self):
        for line, code in (("{not json", -32700), ("[]", -32600), ("[" * 1000000, -32600), ("{}", -32600), ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
                           ('{"jsonrpc":"2.0","id":1,"method":"ping","params":3}', -32600), ('{"jsonrpc":"2.0","id":1,"method":"resources/list"}', -32601),
                           ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"rm"}}', -32602),
                           ('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"show","arguments":[]}}', -32602),
                           ('{"jsonrpc":"2.0","id":1,"method":3}', -32600), ('{"jsonrpc":3,"id":1,"method":"ping"}', -32600)):
            self.client.write(line)
            self.assertEqual(self.client.receive()["error"]["code"], code, line)
        self.assertEqual(self.client.ask("initialize", {"protocolVersion": 3})["result"]["protocolVersion"], "2025-06-18")
        self.client.write("")
        self.client.send("notifications/unknown")
        self.client.write('{"jsonrpc":"2.0","id":7,"result":{}}')
        self.assertEqual(self.client.ask("ping")["result"], {})

    def test_a_cancelled_call_has_no_answer(self):
        long = {"name": "plan", "arguments": {"model": "deepseek-v3", "cluster": "dgx-h100", "devices": 8192, "global_batch": 8192}}
        self.client.send("tools/call", long, "long")
        self.client.send("tools/call", long, "queued")
        self.client.send("tools/call", {"name": "show", "arguments": {"name": "stacks"}}, "short")
        self.client.send("notifications/cancelled", {"requestId": "queued"})
        self.client.send("notifications/cancelled", {"requestId": "long", "reason": "changed my mind"})
        self.assertEqual(self.client.ask("ping")["result"], {})
        self.assertEqual(self.client.receive()["id"], "short")

    def test_the_end_of_the_input_answers_what_is_left(self):
        self.client.send("tools/call", {"name": "plan", "arguments": SMALL}, 1)
        self.client.send("tools/call", {"name": "show", "arguments": {"name": "h100"}}, 2)
        self.assertEqual(self.client.close(), (0, ""))
        self.assertEqual([self.client.receive()["id"], self.client.receive()["id"], self.client.receive()], [1, 2, None])


if __name__ == "__main__":
    unittest.main()
