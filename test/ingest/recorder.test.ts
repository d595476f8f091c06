import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { decodeEnvelope } from '../../ingest/events/decode.ts';
import { createRecorder, envelope, RecorderError, type RecorderOptions } from '../../ingest/recorder/recorder.ts';

type Envelope = { readonly id: string; readonly type: string; readonly time?: string };
type Endpoint = {
  readonly url: string;
  /** Bodies of the requests that were answered with 2xx. */
  readonly taken: Envelope[][];
  readonly requests: { readonly headers: IncomingMessage['headers']; readonly at: number }[];
};
type Behave = (batch: Envelope[], attempt: number, response: ServerResponse) => object | null;

let open: Server | null = null;
afterEach(() => {
  open?.closeAllConnections();
  open?.close();
  open = null;
});

/** A server that lets events in through the real endpoint, unless `behave` answers first (null: it did, an object: this 200). */
async function endpoint(behave: Behave = report): Promise<Endpoint> {
  const taken: Envelope[][] = [];
  const requests: Endpoint['requests'] = [];
  open = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    requests.push({ headers: request.headers, at: performance.now() });
    if (request.url !== '/v1/events' || request.method !== 'POST') return response.writeHead(404).end();
    const batch = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Envelope[];
    const answer = behave(batch, requests.length, response);
    if (answer === null) return;
    taken.push(batch);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  });
  await new Promise<void>((resolve) => open!.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(open.address() as AddressInfo).port}`, taken, requests };
}

function report(batch: Envelope[]): object {
  const errors = batch.flatMap((event, index) => {
    const { refusal } = decodeEnvelope(event);
    return refusal ? [{ index, id: event.id, ...refusal }] : [];
  });
  return {
    received: batch.length,
    accepted: batch.length - errors.length,
    duplicates: 0,
    rejected: errors.length,
    errors,
  };
}

const busy = (response: ServerResponse, headers = {}): null => {
  response.writeHead(503, headers).end('busy');
  return null;
};

const recorder = (url: string, options: Partial<RecorderOptions> = {}) =>
  createRecorder({ baseUrl: url, source: '/test', pause: 5, ...options });
const episode = (id: string) => ({ episode_id: id, task_id: 't' });
const failure = (promise: Promise<unknown>): Promise<RecorderError> =>
  promise.then(
    () => expect.fail('the flush succeeded'),
    (error) => {
      expect(error).toBeInstanceOf(RecorderError);
      return error as RecorderError;
    },
  );

describe('the recorder', () => {
  it('sends valid events, in the order they were recorded', async () => {
    const { url, taken } = await endpoint();
    const { task, episode: start, feedback, finish, event, flush } = recorder(url);
    task({ task_id: 't', query: 'add 2 and 3', ground_truth: '5' });
    start(episode('e'));
    event({ name: 'message.sent', data: { episode_id: 'e', message_id: 'm', content: 'hello' } });
    feedback({ feedback_id: 'e/r', target: { kind: 'episode', id: 'e' }, kind: 'reward', name: 'reward', value: 1 });
    finish({ episode_id: 'e', outcome: 'success' }, { time: '2026-09-10T10:00:00Z' });
    expect(await flush()).toEqual({ sent: 5, accepted: 5, duplicates: 0 });
    const events = taken.flat();
    expect(events.map(({ type }) => type)).toEqual([
      'troupe.task.defined.v1',
      'troupe.episode.started.v1',
      'troupe.message.sent.v1',
      'troupe.feedback.recorded.v1',
      'troupe.episode.finished.v1',
    ]);
    expect(events.map(({ id }) => id)).toEqual(['task/t', 'e/started', expect.any(String), 'e/r', 'e/finished']);
    expect(events[0]).not.toHaveProperty('time');
    expect(events[4]!.time).toBe('2026-09-10T10:00:00Z');
    expect(Math.abs(Date.parse(events[1]!.time!) - Date.now())).toBeLessThan(60_000);
  });

  it('sends batches of the asked size, by itself when one is full, one request at a time', async () => {
    let inside = 0;
    const { url, taken, requests } = await endpoint((batch, _, response) => {
      inside++;
      expect(inside).toBe(1);
      setTimeout(() => {
        inside--;
        taken.push(batch);
        response.writeHead(200).end(JSON.stringify(report(batch)));
      }, 20);
      return null;
    });
    const { episode: start, flush } = recorder(url, { batchSize: 10, headers: { authorization: 'Bearer k' } });
    for (let i = 0; i < 25; i++) start(episode(`e${i}`));
    await expect.poll(() => taken.length).toBe(2);
    expect(await flush()).toEqual({ sent: 25, accepted: 25, duplicates: 0 });
    expect(taken.map((batch) => batch.length)).toEqual([10, 10, 5]);
    expect(taken.flat().map(({ id }) => id)).toEqual(Array.from({ length: 25 }, (_, i) => `e${i}/started`));
    expect(requests.every(({ headers }) => headers.authorization === 'Bearer k')).toBe(true);
    expect(await flush()).toEqual({ sent: 0, accepted: 0, duplicates: 0 });
  });

  it('keeps a request under 4 MiB, and sends a larger event alone', async () => {
    const { url, taken } = await endpoint();
    const { event, flush } = recorder(url);
    for (const [i, mega] of [1, 1, 1, 1, 6, 1].entries()) {
      const content = 'x'.repeat(mega * 2 ** 20);
      event({ name: 'message.sent', data: { episode_id: 'e', message_id: `m${i}`, content } });
    }
    await flush();
    expect(taken.map((batch) => batch.length)).toEqual([3, 1, 1, 1]);
  });

  it('sends the same again while the server is away, waiting longer each time', async () => {
    const { url, taken, requests } = await endpoint((batch, attempt, response) => {
      if (attempt === 1) return busy(response);
      if (attempt === 2) {
        response.destroy();
        return null;
      }
      return attempt === 3 ? busy(response, { 'retry-after': '0' }) : report(batch);
    });
    const { episode: start, flush } = recorder(url, { pause: 40 });
    start(episode('e'));
    expect(await flush()).toEqual({ sent: 1, accepted: 1, duplicates: 0 });
    expect(taken).toHaveLength(1);
    const pauses = requests.slice(1).map(({ at }, i) => at - requests[i]!.at);
    expect(pauses).toHaveLength(3);
    expect(pauses[0]).toBeGreaterThan(35);
    expect(pauses[1]).toBeGreaterThan(75);
  });

  it('keeps what could not be sent for the next flush', async () => {
    let away = true;
    const { url, taken, requests } = await endpoint((batch, _, response) => (away ? busy(response) : report(batch)));
    const { episode: start, flush } = recorder(url, { tries: 3, batchSize: 2 });
    for (let i = 0; i < 5; i++) start(episode(`e${i}`));
    const error = await failure(flush());
    expect(error.message).toContain('503');
    expect(error.rejected).toEqual([]);
    expect(requests.length % 3).toBe(0);
    away = false;
    expect(await flush()).toEqual({ sent: 5, accepted: 5, duplicates: 0 });
    expect(taken.flat().map(({ id }) => id)).toEqual([0, 1, 2, 3, 4].map((i) => `e${i}/started`));
  });

  it('says so when nobody listens', async () => {
    const { url } = await endpoint();
    open!.close();
    const { episode: start, flush } = recorder(url, { tries: 2 });
    start(episode('e'));
    expect((await failure(flush())).message).toMatch(/took none of 1 events in 2 tries \(.*ECONNREFUSED/);
  });

  it('throws on refused events, naming the first, and keeps the good ones', async () => {
    const { url, taken } = await endpoint();
    const { episode: start, event, flush } = recorder(url, { batchSize: 2 });
    start(episode('a'));
    event({ name: 'episode.finished', id: 'bad', data: { episode_id: 'a', outcome: 'wonderful' as 'success' } });
    start(episode('b'));
    const error = await failure(flush());
    expect(error.message).toContain(
      '1 of 3 events were refused. The first is troupe.episode.finished.v1 bad: data.outcome',
    );
    expect(error.rejected).toMatchObject([{ id: 'bad', field: 'data.outcome', code: 'bad_shape' }]);
    expect(taken.flat()).toHaveLength(3);
    expect(await flush()).toEqual({ sent: 0, accepted: 0, duplicates: 0 });
  });

  it('takes no answer that leaves an event unaccounted for as an acknowledgement', async () => {
    let partly = true;
    const { url } = await endpoint((batch) =>
      partly ? { accepted: batch.length - 1, duplicates: 0, errors: [] } : report(batch),
    );
    const { episode: start, flush } = recorder(url);
    start(episode('a'));
    start(episode('b'));
    expect((await failure(flush())).message).toContain('without a result for each of 2 events');
    partly = false;
    expect(await flush()).toEqual({ sent: 2, accepted: 2, duplicates: 0 });
  });

  it('does not ask again where asking again cannot help', async () => {
    const { url, requests } = await endpoint((_, __, response) => {
      response.writeHead(401).end('{"title":"no such key"}');
      return null;
    });
    const { episode: start, flush } = recorder(url);
    start(episode('e'));
    expect((await failure(flush())).message).toContain('answered 401');
    expect(requests).toHaveLength(1);
  });

  it('takes an event as it was when it was recorded', async () => {
    const { url, taken } = await endpoint();
    const { task, flush } = recorder(url);
    const tags = { colour: 'red' };
    task({ task_id: 't', tags });
    tags.colour = 'blue';
    await flush();
    expect(taken[0]![0]).toMatchObject({ data: { tags: { colour: 'red' } } });
  });
});

describe('an envelope', () => {
  it('repeats its id and time where the producer gave them, and leaves out an unknown time', () => {
    const draft = { name: 'job.started', id: 'i', time: null, data: { job_id: 'j' } } as const;
    expect(envelope('/s', draft)).toEqual(envelope('/s', draft));
    expect(decodeEnvelope(envelope('/s', draft)).event).toMatchObject({
      id: 'i',
      source: '/s',
      time: null,
      key: 'j/j',
    });
  });
});
