import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { readCommand } from '../../../examples/coder-verifier/command.ts';
import type { Matrix } from '../../../examples/coder-verifier/matrix.ts';
import type { Values } from '../../../examples/coder-verifier/operations.ts';
import { drawPlans } from '../../../examples/coder-verifier/play.ts';
import { parseProgram } from '../../../examples/coder-verifier/program.ts';
import { POOLS } from '../../../examples/coder-verifier/splits.ts';
import { decodeEnvelope } from '../../../ingest/decode.ts';
import type { Event } from '../../../ingest/events.ts';

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
const seen = { calls: [] as Call[], events: [] as Event[], refused: [] as unknown[], posts: 0, inFlight: 0, most: 0 };
let unwell: (call: Call) => number | null = () => null;

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
let answers: AsyncIterator<string>;
const hear = async () => JSON.parse((await answers.next()).value as string);
const tell = (command: object | string): Promise<Record<string, unknown>> => {
  team.stdin.write(`${typeof command === 'string' ? command : JSON.stringify(command)}\n`);
  return hear();
};

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const program = [
    '--import',
    'tsx',
    'examples/coder-verifier/team.ts',
    '--url',
    url,
    '--run',
    'test',
    '--key',
    'secret',
  ];
  team = spawn(process.execPath, program, { stdio: 'pipe' });
  team.stderr.pipe(process.stderr);
  answers = createInterface({ input: team.stdout })[Symbol.asyncIterator]();
  expect(await hear()).toEqual({ ready: true });
});

afterAll(async () => {
  team.stdin.end();
  const [code] = await once(team, 'exit');
  expect(code).toBe(0);
  server.closeAllConnections();
  server.close();
});

beforeEach(() => Object.assign(seen, { calls: [], events: [], refused: [], posts: 0, inFlight: 0, most: 0 }));
afterEach(() => {
  unwell = () => null;
});

const PLAY = {
  cmd: 'play',
  phase: 'rl',
  iteration: 7,
  round: 1,
  seed: 5,
  tasks: 12,
  verified: 5,
  pool: 'train',
  programs: 6,
  inputs: 3,
  tests_per_input: 2,
  policy: 'policy:team',
};
const data = <T>(name: Event['name']): T[] =>
  seen.events.filter((event) => event.name === name).map((event) => event.data as T);

describe('the team', () => {
  it('asks the coder about every task and the verifier about the first ones, all at once', async () => {
    const answer = await tell(PLAY);
    expect(answer).toMatchObject({ done: true, failed: 0, stats: { tasks: 12 } });
    const by = (role: string) => seen.calls.filter(({ headers }) => headers['troupe-role'] === role);
    expect(by('coder')).toHaveLength(12);
    expect(by('verifier')).toHaveLength(15);
    // How many stand open together depends on how busy the machine is; one after the other it would be 1.
    expect(seen.most).toBeGreaterThan(5);
    const plans = drawPlans(readCommand(JSON.stringify(PLAY), 'test'));
    for (const { headers, body } of seen.calls) {
      const plan = plans.find(({ id }) => id === headers['troupe-episode'])!;
      expect(headers).toMatchObject({
        'troupe-task': plan.task.id,
        'troupe-group': plan.id,
        'troupe-agent': headers['troupe-role'],
        authorization: 'Bearer secret',
      });
      const isCoder = headers['troupe-role'] === 'coder';
      expect(body).toMatchObject({
        model: 'policy:team',
        temperature: 1,
        n: isCoder ? 6 : 2,
        max_tokens: isCoder ? 4 : 13,
        seed: expect.any(Number),
      });
      expect(body.messages[0]).toEqual({ role: 'user', content: plan.task.sentence });
      expect(body.messages[1]!.role).toBe('system');
      expect(body.messages[1]!.content).toMatch(isCoder ? /^<coder>$/ : /^<verifier>( [0-5]){3}$/);
    }
    expect(new Set(seen.calls.map(({ body }) => body.seed)).size).toBe(27);
  });

  it('reports every episode in events the door lets in, in few requests', async () => {
    const { episodes } = await tell(PLAY);
    expect(seen.refused).toEqual([]);
    expect(seen.posts).toBeLessThanOrEqual(2);
    const ids = episodes as string[];
    expect(new Set(ids).size).toBe(12);
    type Started = { episode_id: string; task_id: string; group_id: string; tags: object; team_id: string };
    const started = data<Started>('episode.started');
    expect(started.map(({ episode_id }) => episode_id).sort()).toEqual([...ids].sort());
    for (const { episode_id, group_id, tags, team_id } of started) {
      expect(group_id).toBe(episode_id);
      expect(tags).toEqual({ run: 'test', phase: 'rl', iteration: 7, round: 1, pool: 'train' });
      expect(team_id).toMatch(/^list-recipes@[0-9a-f]{12}$/);
    }
    const tasks = new Set(data<{ task_id: string }>('task.defined').map(({ task_id }) => task_id));
    expect(started.every(({ task_id }) => tasks.has(task_id))).toBe(true);
    type Finished = { episode_id: string; outcome: string; answer: string };
    const finished = data<Finished>('episode.finished');
    const rewards = data<{ kind: string; value: number; target: { id: string } }>('feedback.recorded').filter(
      ({ kind }) => kind === 'reward',
    );
    expect(finished).toHaveLength(12);
    expect(rewards).toHaveLength(12);
    for (const { episode_id, outcome, answer } of finished) {
      const reward = rewards.find(({ target }) => target.id === episode_id)!;
      expect(outcome).toBe(reward.value === 1 ? 'success' : 'failure');
      expect(parseProgram(answer)).not.toBeNull();
    }
  });

  it('reports a matrix of the steps the gateway named', async () => {
    await tell(PLAY);
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

  it('plays the same again for the same command, and something else for another seed or attempt', async () => {
    const shape = () => seen.calls.map(({ headers, body }) => JSON.stringify([headers['troupe-episode'], body])).sort();
    const first = await tell(PLAY);
    const asked = shape();
    seen.calls = [];
    const again = await tell(PLAY);
    expect(again.episodes).toEqual(first.episodes);
    expect(again.stats).toEqual(first.stats);
    expect(shape()).toEqual(asked);
    const other = await tell({ ...PLAY, seed: 6 });
    const attempt = await tell({ ...PLAY, attempt: 1 });
    expect(new Set([first, other, attempt].flatMap(({ episodes }) => episodes as string[])).size).toBe(36);
  });

  it('is examined on the same tasks and inputs in every round and run, none of them for training', async () => {
    const ask = async (command: object) => {
      seen.calls = [];
      const answer = await tell({ cmd: 'evaluate', pool: 'hard', tasks: 20, ...command });
      return { answer, asked: seen.calls.map(({ body }) => JSON.stringify(body.messages)).sort() };
    };
    const first = await ask({ round: 0 });
    const later = await ask({ round: 3, run: 'another', seed: 99 });
    expect(later.asked).toEqual(first.asked);
    expect(later.answer.episodes).not.toEqual(first.answer.episodes);
    expect(first.asked).toHaveLength(20 * (1 + 7));
    const hard = new Set([...POOLS.hard[2], ...POOLS.hard[3]].map((program) => program.join(' ')));
    const truths = data<{ ground_truth: string; split: string }>('task.defined');
    expect(truths.every(({ ground_truth }) => hard.has(ground_truth.replaceAll('#', '')))).toBe(true);
    expect(readCommand('{"cmd":"evaluate"}', 'r')).toMatchObject({ tasks: 192, pool: 'new', programs: 7, inputs: 7 });
    expect(readCommand('{"cmd":"evaluate","pool":"hard"}', 'r')).toMatchObject({ tasks: 96 });
  });

  it('closes an episode whose call failed as an error, and plays the others', async () => {
    const [first] = drawPlans(readCommand(JSON.stringify(PLAY), 'test'));
    unwell = ({ headers }) => (headers['troupe-episode'] === first!.id ? 400 : null);
    expect(await tell(PLAY)).toMatchObject({ done: true, failed: 1, stats: { tasks: 11 } });
    type Finished = { episode_id: string; outcome: string; stop_reason?: string };
    const failed = data<Finished>('episode.finished').filter(({ outcome }) => outcome === 'error');
    expect(failed).toMatchObject([{ episode_id: first!.id, stop_reason: expect.stringContaining('400') }]);
  });

  it('asks again while the gateway is busy', async () => {
    let refusals = 3;
    unwell = () => (refusals-- > 0 ? 503 : null);
    expect(await tell({ ...PLAY, tasks: 2, verified: 1 })).toMatchObject({ done: true, failed: 0 });
    expect(seen.calls).toHaveLength(2 + 3);
  });

  it.each([
    ['nonsense', 'A command is one JSON object'],
    [{ cmd: 'dance' }, 'cmd must be play or evaluate, it is "dance"'],
    [{ cmd: 'play' }, 'seed must be a whole number from 0, it is missing'],
    [{ ...PLAY, pool: 'secret' }, 'pool must be train, new or hard'],
    [{ ...PLAY, tasks: -1 }, 'tasks must be a whole number from 0'],
  ])('answers %j with a reason and goes on', async (command, reason) => {
    expect((await tell(command)).error).toContain(reason);
    expect(await tell({ ...PLAY, tasks: 1 })).toMatchObject({ done: true });
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
