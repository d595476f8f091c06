import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Matrix } from '../../../examples/coder-verifier/matrix.ts';
import type { Values } from '../../../examples/coder-verifier/operations.ts';
import { parseProgram } from '../../../examples/coder-verifier/program.ts';
import { sampleTask, TRAINING_MIX } from '../../../examples/coder-verifier/splits.ts';
import { type TaskLine, taskLine } from '../../../examples/coder-verifier/task-line.ts';
import type { Attempt as AttemptAt, Report } from '../../../examples/lib/leases.ts';
import { createRandom } from '../../../examples/lib/random.ts';
import { decodeEnvelope } from '../../../ingest/events/decode.ts';
import type { Event } from '../../../ingest/events/events.ts';

type Attempt = AttemptAt<TaskLine>;
type Request = {
  readonly model: string;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
  readonly n: number;
  readonly max_tokens: number;
  readonly temperature: number;
  readonly seed: number;
};
type Call = { readonly headers: IncomingMessage['headers']; readonly body: Request };

/** What the server saw, and how it shall behave. */
const seen = {
  calls: [] as Call[],
  events: [] as Event[],
  refused: [] as unknown[],
  posts: 0,
  inFlight: 0,
  most: 0,
  leases: [] as object[],
};
let unwell: (call: Call) => number | null = () => null;
/** Attempts that wait, reports that came, and who waits for them. */
let waiting: Attempt[] = [];
let reports: Report[] = [];
let reported: () => void = () => {};
/** Answers of the server to leases and reports before it is well again. */
let away = 0;

/** A model of its own kind: it reverses, or sorts, or says nothing sensible, as the seed and the number of the answer say. */
const PROGRAMS = ['#rev', '#asc', '#desc #neg', 'what'];
const say = (body: Request, index: number): string => {
  const pick = (body.seed + index) % PROGRAMS.length;
  const [role, ...digits] = body.messages[1]!.content.split(' ');
  if (role === '<coder>') return PROGRAMS[pick]!;
  return pick === 3 ? '#rev' : `#rev ${digits.toReversed().join(' ')}`;
};

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const value = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  const reply = (status: number, answer: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  if (request.url === '/v1/events') {
    seen.posts++;
    const decoded = (value as unknown[]).map(decodeEnvelope);
    seen.events.push(...decoded.flatMap(({ event }) => (event ? [event] : [])));
    const errors = decoded.flatMap(({ refusal }, index) => (refusal ? [{ index, ...refusal }] : []));
    seen.refused.push(...errors);
    reply(200, { accepted: decoded.length - errors.length, duplicates: 0, errors });
    return;
  }
  if (request.url?.startsWith('/v1/rollouts/') && away > 0) {
    away--;
    reply(503, { title: 'away' });
    return;
  }
  if (request.url === '/v1/rollouts/lease') {
    seen.leases.push(value);
    if (waiting.length === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    reply(200, { attempts: waiting.splice(0, value.count) });
    return;
  }
  if (request.url === '/v1/rollouts/finish') {
    reports.push(...value.attempts);
    reply(200, { attempts: [] });
    reported();
    return;
  }
  const call: Call = { headers: request.headers, body: value as Request };
  const status = request.url === '/v1/chat/completions' ? unwell(call) : 404;
  if (status !== null) {
    reply(status, { title: 'unwell' });
    return;
  }
  const id = `call-${seen.calls.push(call)}`;
  seen.most = Math.max(seen.most, ++seen.inFlight);
  await new Promise((resolve) => setTimeout(resolve, 5));
  seen.inFlight--;
  const choices = Array.from({ length: call.body.n }, (_, index) => ({
    index,
    message: { role: 'assistant', content: say(call.body, index) },
    finish_reason: 'stop',
  }));
  reply(200, { id, choices, troupe: { step_ids: choices.map(({ index }) => `${id}/${index}`) } });
});

let team: ChildProcessWithoutNullStreams;

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const program = ['--import', 'tsx', 'examples/coder-verifier/team.ts', '--url', url, '--key', 'secret'];
  team = spawn(process.execPath, program, { stdio: 'pipe' });
  team.stderr.pipe(process.stderr);
});

afterAll(async () => {
  team.kill('SIGTERM');
  const [code] = await once(team, 'exit');
  expect(code).toBe(0);
  server.closeAllConnections();
  server.close();
});

beforeEach(() =>
  Object.assign(seen, { calls: [], events: [], refused: [], posts: 0, inFlight: 0, most: 0, leases: [] }),
);
afterEach(() => {
  unwell = () => null;
});

const random = createRandom(5);
const TASKS = Array.from({ length: 12 }, (_, i) =>
  taskLine(sampleTask('train', random, TRAINING_MIX), { programs: 6, inputs: i < 5 ? 3 : 0, tests_per_input: 2 }),
);
/** The attempts of a rollout at these tasks. */
const attempts = (rollout: string, tasks = TASKS, seed = 100): Attempt[] =>
  tasks.map((task, i) => {
    const id = `${rollout}/${i}/0`;
    const of = { rollout_id: rollout, group_id: `${rollout}/${i}` };
    return { ...of, attempt_id: id, token: i + 1, episode_id: id, task, seed: seed + i };
  });
/** Has the team play attempts, and waits for its reports on all of them. */
async function played(asked: readonly Attempt[]): Promise<readonly Report[]> {
  reports = [];
  waiting = [...asked];
  while (reports.length < asked.length)
    await new Promise<void>((resolve) => {
      reported = resolve;
    });
  return reports;
}
const data = <T>(name: Event['name']): T[] =>
  seen.events.filter((event) => event.name === name).map((event) => event.data as T);

describe('the team', () => {
  it('asks the coder about every task and the verifier where inputs are wanted, all at once', async () => {
    await played(attempts('r'));
    const by = (role: string) => seen.calls.filter(({ headers }) => headers['troupe-role'] === role);
    expect(by('coder')).toHaveLength(12);
    expect(by('verifier')).toHaveLength(15);
    // How many are open together depends on how busy the machine is; one after the other it would be 1.
    expect(seen.most).toBeGreaterThan(5);
    expect(seen.leases[0]).toEqual({ runner: 'team', count: 128, wait_s: 20 });
    for (const { headers, body } of seen.calls) {
      const { task } = attempts('r').find(({ episode_id }) => episode_id === headers['troupe-episode'])!;
      expect(headers).toMatchObject({ 'troupe-agent': headers['troupe-role'], authorization: 'Bearer secret' });
      const isCoder = headers['troupe-role'] === 'coder';
      expect(body).toMatchObject({
        model: 'policy:team',
        temperature: 1,
        n: isCoder ? 6 : 2,
        max_tokens: isCoder ? 4 : 13,
        seed: expect.any(Number),
      });
      expect(body.messages[0]).toEqual({ role: 'user', content: task.prompt });
      expect(body.messages[1]!.role).toBe('system');
      expect(body.messages[1]!.content).toMatch(isCoder ? /^<coder>$/ : /^<verifier>( [0-5]){3}$/);
    }
    expect(new Set(seen.calls.map(({ body }) => body.seed)).size).toBe(27);
  });

  it('reports the share of right programs and the one that it chose, once its events are stored', async () => {
    const found = await played(attempts('r'));
    expect(seen.refused).toEqual([]);
    expect(seen.posts).toBeLessThanOrEqual(2);
    expect(found.map(({ attempt_id, token }) => [attempt_id, token])).toEqual(
      attempts('r').map(({ attempt_id, token }) => [attempt_id, token]),
    );
    const matrices = data<{ target: { id: string }; matrix: Matrix }>('feedback.recorded');
    for (const report of found) {
      if (report.outcome !== 'done') throw new Error(report.reason);
      const { matrix } = matrices.find(({ target }) => target.id === report.attempt_id)!;
      const right = matrix.pass.slice(0, 6).filter((row) => row.at(-1) === 1).length;
      expect(report.reward).toBe(right / 6);
      expect(parseProgram(report.answer!)).not.toBeNull();
      expect(['success', 'failure']).toContain(report.episode_outcome);
    }
  });

  it('reports a matrix of the steps the gateway named', async () => {
    await played(attempts('r'));
    const matrices = data<{ kind: string; target: { id: string }; matrix: Matrix }>('feedback.recorded').filter(
      ({ kind }) => kind === 'execution',
    );
    expect(matrices).toHaveLength(12);
    expect(matrices.filter(({ matrix }) => matrix.tests.length === 3 * 2 + 1)).toHaveLength(5);
    expect(matrices.filter(({ matrix }) => matrix.tests.length === 1)).toHaveLength(7);
    for (const { target, matrix } of matrices) {
      const calls = seen.calls.flatMap(({ headers, body }, i) =>
        headers['troupe-episode'] === target.id ? [{ id: `call-${i + 1}`, role: headers['troupe-role'], body }] : [],
      );
      const coder = calls.find(({ role }) => role === 'coder')!;
      expect(matrix.programs.map(({ step_id }) => step_id)).toEqual([
        ...[0, 1, 2, 3, 4, 5].map((i) => `${coder.id}/${i}`),
        undefined,
      ]);
      for (const [i, member] of matrix.programs.slice(0, 6).entries()) {
        expect(member.valid).toBe(say(coder.body, i) !== 'what');
      }
      const named = new Set(
        calls.filter(({ role }) => role === 'verifier').flatMap(({ id }) => [`${id}/0`, `${id}/1`]),
      );
      expect(new Set(matrix.tests.slice(0, -1).map(({ step_id }) => step_id))).toEqual(named);
      for (const [j, test] of matrix.tests.slice(0, -1).entries()) {
        const call = calls.find(({ id }) => test.step_id!.startsWith(`${id}/`))!;
        const input: Values = call.body.messages[1]!.content.split(' ').slice(1).map(Number);
        for (const [i, row] of matrix.pass.slice(0, 6).entries()) {
          const program = parseProgram(say(coder.body, i));
          // Every sound test of this model says: the output is the input reversed.
          const expected =
            program && test.valid ? Number(outputOf(program, input) === input.toReversed().join()) : null;
          expect(row[j]).toBe(expected);
        }
      }
    }
  });

  it('plays the same again for the same seed, and something else for another', async () => {
    const shape = async (asked: readonly Attempt[]) => {
      seen.calls = [];
      const found = await played(asked);
      return [found, seen.calls.map(({ body }) => JSON.stringify(body)).sort()];
    };
    const first = await shape(attempts('r'));
    expect(await shape(attempts('r'))).toEqual(first);
    expect((await shape(attempts('r', TASKS, 900)))[1]).not.toEqual(first[1]);
  });

  it('reports an episode whose call failed with the reason, and plays the others', async () => {
    unwell = ({ headers }) => (headers['troupe-episode'] === 'r/0/0' ? 400 : null);
    const [failed, ...rest] = await played(attempts('r'));
    expect(failed).toEqual({
      attempt_id: 'r/0/0',
      token: 1,
      outcome: 'failed',
      reason: expect.stringContaining('400'),
    });
    expect(rest.every(({ outcome }) => outcome === 'done')).toBe(true);
  });

  it('asks again while the gateway is busy and while the server is away', async () => {
    let refusals = 3;
    unwell = () => (refusals-- > 0 ? 503 : null);
    away = 3;
    const found = await played(attempts('r', TASKS.slice(3, 5)));
    expect(found.map(({ outcome }) => outcome)).toEqual(['done', 'done']);
    expect(seen.calls).toHaveLength(2 * 4);
  });
});

/** Written apart from the team's own operations. */
function outputOf(program: readonly string[], input: Values): string {
  let list = [...input];
  for (const name of program) {
    if (name === 'rev') list.reverse();
    else if (name === 'asc') list.sort((a, b) => a - b);
    else if (name === 'desc') list.sort((a, b) => b - a);
    else if (name === 'neg') list = list.map((digit) => 5 - digit);
  }
  return list.join();
}
