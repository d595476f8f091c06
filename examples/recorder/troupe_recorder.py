"""What an agent's own Python program imports to say what happened.

One file, the standard library only: copy it into your program. Events are queued, sent in batches to
``POST /v1/events``, and sent again while the server is away; with a spill folder they wait on disk meanwhile, in the
same files as those of the recorder for Node, so either sends what the other left. What the server refuses is reported,
what it takes is durable.

    from troupe_recorder import Recorder

    with Recorder("http://127.0.0.1:7717", "/my-team", spill="spill") as say:
        say.episode(episode_id="run-1", task_id="sum")
        call = say.step(episode_id="run-1", agent_id="solver", choices=["42"])
        say.finish(episode_id="run-1", outcome="success")
"""

import atexit
import datetime
import hashlib
import json
import os
import re
import sys
import threading
import time as clock
import urllib.error
import urllib.request
import uuid

__all__ = ["Recorder", "RecorderError"]

# A request stays under this many bytes (one larger event goes alone), far below what the server takes in one body.
MAX_BYTES = 2**22
MAX_PAUSE = 5.0
AWAY = {408, 425, 429, 500, 502, 503, 504}
# A file still being written after this long belongs to a process that was killed; it was never reported as kept.
ABANDONED_SECONDS = 60
WHOLE = re.compile(r"^\d{15}-\d{6}-[0-9a-f]{8}-([0-9a-f]{32})\.ndjson$")
NOW = object()
MICROSECOND = datetime.timedelta(microseconds=1)


class RecorderError(Exception):
    """Why a flush failed: events the server refused (`rejected`), or no answer from it (`away`: later may help)."""

    def __init__(self, message, rejected=(), away=False):
        super().__init__(message)
        self.rejected = list(rejected)
        self.away = away


class Recorder:
    """A recorder for one source. Batches leave by themselves when they are full; `flush` sends the rest and waits.

    base_url     where Troupe listens, such as http://127.0.0.1:7717
    source       who speaks: the CloudEvents source of every event
    headers      sent with every request: an Authorization header, say
    batch_size   events in one request
    tries        how often one request is tried before the flush fails
    pause        seconds before a request is sent again; each further pause is twice as long, up to 5
    spill        a folder where events wait while the server is away; what it holds is sent first
    spill_bytes  bytes that folder may hold
    """

    def __init__(self, base_url, source, headers=None, batch_size=250, tries=8, pause=0.1, spill=None, spill_bytes=2**28):
        self._url = base_url.rstrip("/") + "/v1/events"
        self._source = source
        self._headers = dict(headers or {})
        self._batch_size = batch_size
        self._tries = tries
        self._pause = pause
        self._spill = None if spill is None else _Spill(spill, spill_bytes)
        self._queue = []
        self._queue_lock = threading.Lock()
        # The times that it gives differ, so that what a program does within a microsecond stays in order.
        self._clock = threading.Lock()
        self._last = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)
        # One request at a time, so that events arrive in the order they were recorded.
        self._sending = threading.Lock()
        self._thread = None
        self._away = False
        self._rejected = []
        self._counts = {"sent": 0, "accepted": 0, "duplicates": 0, "spilled": 0}
        atexit.register(self._leave)
        if self._spill:
            self._send_in_background()

    # The events. Every keyword is a field of the event (docs/events.md); `time` is RFC 3339, None where unknown.

    def task(self, *, time=None, **data):
        """A problem was stated. Stating it again in the same words, without a time or with the same, changes nothing."""
        self.event("task.defined", data, id="task/%s" % data["task_id"], time=time)

    def episode(self, *, time=NOW, **data):
        """An attempt began."""
        self.event("episode.started", data, id="%s/started" % data["episode_id"], time=time)

    def agent(self, *, time=NOW, **data):
        """A member of the team was described."""
        self.event("agent.defined", data, time=time)

    def step(self, *, choices, call_id=None, requested=None, time=NOW, **data):
        """A model was called and answered: all candidates of one call, texts or objects with index, content, chosen …

        model, params, input and tools say what was asked, and `requested` when. Returns the id of the call; its steps
        are `<call id>/<index>`.
        """
        call_id = call_id or str(uuid.uuid4())
        asked = {name: data.pop(name) for name in ("model", "params", "input", "tools", "parent_call_id") if name in data}
        asked.update({name: data[name] for name in ("episode_id", "agent_id", "role", "turn") if name in data})
        self.event("generation.requested", dict(asked, call_id=call_id), id=call_id + "/requested", time=requested)
        numbered = [{"index": i, "content": one} if isinstance(one, str) else one for i, one in enumerate(choices)]
        self.event(
            "generation.completed", dict(data, call_id=call_id, choices=numbered), id=call_id + "/completed", time=time
        )
        return call_id

    def tool_call(self, *, tool_call_id=None, time=NOW, **data):
        """A tool was called, and where `status` says how it ended, answered. Returns the id of the tool call."""
        tool_call_id = tool_call_id or str(uuid.uuid4())
        result = {name: data.pop(name) for name in ("status", "output", "error", "duration_ms") if name in data}
        name = "%s/%s" % (data["episode_id"], tool_call_id)
        self.event("tool.called", dict(data, tool_call_id=tool_call_id), id=name + "/called", time=time)
        if "status" in result:
            result.update({name: data[name] for name in ("episode_id", "call_id") if name in data})
            self.event("tool.returned", dict(result, tool_call_id=tool_call_id), id=name + "/returned", time=time)
        return tool_call_id

    def decision(self, *, time=NOW, **data):
        """Somebody decided."""
        self.event("decision.made", data, time=time)

    def feedback(self, *, time=NOW, **data):
        """Feedback on a target, after the fact."""
        self.event("feedback.recorded", data, id=data["feedback_id"], time=time)

    def finish(self, *, time=NOW, **data):
        """An attempt ended."""
        self.event("episode.finished", data, id="%s/finished" % data["episode_id"], time=time)

    def event(self, name, data, id=None, time=NOW):
        """Any event of the vocabulary. The id is random unless given: give one wherever the same event may be sent twice."""
        if time is NOW:
            with self._clock:
                self._last = max(self._last + MICROSECOND, datetime.datetime.now(datetime.timezone.utc))
                time = self._last.isoformat(timespec="microseconds").replace("+00:00", "Z")
        value = {
            "specversion": "1.0",
            "id": id or str(uuid.uuid4()),
            "source": self._source,
            "type": "troupe.%s.v1" % name,
            "datacontenttype": "application/json",
            "data": data,
        }
        if time is not None:
            value["time"] = time
        # JSON has no NaN and no infinity: such a number raises here, where it was recorded.
        line = json.dumps(value, allow_nan=False)
        with self._queue_lock:
            self._queue.append({"id": value["id"], "type": value["type"], "json": line})
            full = len(self._queue) >= self._batch_size
        if full:
            self._send_in_background()

    def flush(self):
        """Returns when everything recorded so far is durable: at the server, or while it is away in the spill folder.

        The answer counts sent, accepted, duplicates, spilled and damaged (files moved aside). Raises RecorderError:
        with `rejected` when the server refused events (the others are kept and nothing is sent again), without when it
        could not be reached and there is no spill folder, or no room in it (everything unsent stays for the next flush).
        """
        with self._sending:
            self._drain(1)
            counts, self._counts = self._counts, {"sent": 0, "accepted": 0, "duplicates": 0, "spilled": 0}
            refused, self._rejected = self._rejected, []
        if refused:
            raise RecorderError("%d of %d events were refused. The first: %s" % (len(refused), counts["sent"], refused[0]), refused)
        return dict(counts, damaged=self._spill.damaged if self._spill else 0)

    def close(self):
        """Flushes; the recorder may be used again."""
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # How it is sent.

    def _send_in_background(self):
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._send_quietly, daemon=True)
            self._thread.start()

    def _send_quietly(self):
        try:
            with self._sending:
                self._drain(self._batch_size)
        except RecorderError:
            pass  # Everything unsent stays; the next flush says what is wrong.

    def _drain(self, least):
        """Sends what waits on disk, then from the head of the queue while it holds as many as `least`."""
        try:
            while self._spill:
                found = self._spill.oldest()
                if found is None:
                    break
                name, rest = found
                while rest:
                    batch = _head(rest, self._batch_size)
                    self._send(batch)
                    rest = rest[len(batch) :]
                self._spill.remove(name)
            while len(self._queue) >= least:
                batch = _head(self._queue, self._batch_size)
                self._send(batch)
                with self._queue_lock:
                    del self._queue[: len(batch)]
        except RecorderError as error:
            self._away = error.away
            if not (error.away and self._keep()):
                raise

    def _keep(self):
        """Moves the queue to the spill folder."""
        with self._queue_lock:
            if self._spill is None or (self._queue and not self._spill.keep(self._queue)):
                return False
            self._counts["spilled"] += len(self._queue)
            self._queue.clear()
            return True

    def _leave(self):
        try:
            self.flush()
        except RecorderError as error:
            print(error, file=sys.stderr)

    def _send(self, batch):
        # What waits on disk can wait longer: one try shows whether the server is back.
        answer = self._post(batch, 1 if self._away and self._spill else self._tries)
        self._away = False
        for error in answer["errors"]:
            index = error.get("index")
            known = batch[index] if isinstance(index, int) and index < len(batch) else {}
            self._rejected.append(dict({"id": known.get("id"), "type": known.get("type")}, **error))
        self._counts["sent"] += len(batch)
        self._counts["accepted"] += answer["accepted"]
        self._counts["duplicates"] += answer["duplicates"]

    def _post(self, batch, tries):
        body = ("[" + ",".join(entry["json"] for entry in batch) + "]").encode()
        headers = dict(self._headers, **{"content-type": "application/cloudevents-batch+json"})
        problem = ""
        for attempt in range(tries):
            wait = min(MAX_PAUSE, self._pause * 2**attempt)
            try:
                request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
                with urllib.request.urlopen(request, timeout=60) as response:
                    return self._read(response.status, response.read(), batch)
            except urllib.error.HTTPError as error:
                text = error.read()
                if error.code not in AWAY:
                    return self._read(error.code, text, batch)
                problem = "it answered %d: %s" % (error.code, text[:200].decode("utf-8", "replace"))
                after = error.headers.get("retry-after") or ""
                if after.isdigit():
                    wait = min(MAX_PAUSE, max(self._pause, float(after)))
            except (OSError, ValueError) as error:
                problem = str(error)
            if attempt + 1 < tries:
                clock.sleep(wait)
        raise RecorderError(
            "%s took none of %d events in %d tries (%s). They are kept: flush again when it is back."
            % (self._url, len(batch), tries, problem),
            away=True,
        )

    def _read(self, status, text, batch):
        """The answer for each item. A 2xx that does not account for every event is no acknowledgement."""
        try:
            value = json.loads(text)
            answer = {name: value[name] for name in ("accepted", "duplicates", "errors")}
            if answer["accepted"] + answer["duplicates"] + len(answer["errors"]) == len(batch):
                return answer
        except (ValueError, KeyError, TypeError):
            pass  # The sentence below shows what came.
        raise RecorderError(
            "%s answered %d and did not say what became of each of %d events: %s"
            % (self._url, status, len(batch), text[:300].decode("utf-8", "replace"))
        )


class _Spill:
    """Files of lines. One that has its name is whole, on disk, and never changes: any process may send and remove it."""

    def __init__(self, folder, most):
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._most = most
        self._written = 0
        self.damaged = 0
        for name in os.listdir(folder):
            if name.endswith(".part") and clock.time() - self._seen(name).st_mtime > ABANDONED_SECONDS:
                self._aside(name, "was never finished")

    def keep(self, entries):
        """True once the events are on disk; False where the folder would grow beyond its bound or cannot be written."""
        body = "".join(entry["json"] + "\n" for entry in entries).encode()
        if sum(self._seen(name).st_size for name in self._whole()) + len(body) > self._most:
            return False
        self._written += 1
        stamp = "%015d-%06d" % (clock.time() * 1000, self._written % 10**6)
        name = "%s-%s-%s.ndjson" % (stamp, uuid.uuid4().hex[:8], _digest(body))
        path = os.path.join(self._folder, name)
        try:
            with open(path + ".part", "xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.rename(path + ".part", path)
            self._sync()
            return True
        except OSError as error:
            print("Events could not be kept in %s: %s" % (self._folder, error), file=sys.stderr)
            return False

    def oldest(self):
        """Name and entries of the oldest whole file; a damaged one on the way is moved aside and counted."""
        for name in self._whole():
            try:
                with open(os.path.join(self._folder, name), "rb") as file:
                    body = file.read()
            except FileNotFoundError:
                continue  # Another process has sent it.
            if _digest(body) == WHOLE.match(name).group(1):
                # Not splitlines(): a line of the recorder for Node may hold U+2028.
                lines = body.decode().split("\n")[:-1]
                values = [json.loads(line) for line in lines]
                return name, [{"id": v["id"], "type": v["type"], "json": line} for v, line in zip(values, lines)]
            self._aside(name, "was damaged")
        return None

    def remove(self, name):
        try:
            os.remove(os.path.join(self._folder, name))
        except FileNotFoundError:
            pass

    def _whole(self):
        # By name, which begins with the time: what was recorded first is sent first.
        return sorted(name for name in os.listdir(self._folder) if WHOLE.match(name))

    def _seen(self, name):
        try:
            return os.stat(os.path.join(self._folder, name))
        except FileNotFoundError:
            return os.stat_result((0,) * 10)

    def _aside(self, name, why):
        path = os.path.join(self._folder, name)
        try:
            os.rename(path, path + ".damaged")
        except FileNotFoundError:
            return
        self.damaged += 1
        print("%s %s; it is moved aside. troupe import takes what is good in it." % (path, why), file=sys.stderr)

    def _sync(self):
        # Windows cannot open a folder; there the rename is as durable as the system makes it.
        if os.name != "nt":
            handle = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _digest(body):
    return hashlib.sha256(body).hexdigest()[:32]


def _head(queue, most):
    """The longest run of entries from the head of the queue that fits one request; at least one."""
    size = 0
    batch = []
    for entry in queue[:most]:
        size += len(entry["json"]) + 1
        if batch and size > MAX_BYTES:
            break
        batch.append(entry)
    return batch
