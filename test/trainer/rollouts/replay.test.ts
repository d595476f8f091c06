/** An outside team, unchanged, plays episodes again up to a place: what the gateway answers from the record, what goes on, what is recorded. */

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { PolicyServers } from '../../../api/gateway/policy-servers.ts';
import { captureAnswer, readAnswer } from '../../../api/gateway/upstream/capture.ts';
import type { Kind } from '../../../api/gateway/upstream/kind.ts';
import { readUpstreams } from '../../../api/gateway/upstream/settings.ts';
import { openUpstreams, type Upstreams } from '../../../api/gateway/upstream/upstreams.ts';
import { buildApp } from '../../../api/http/app.ts';
import { openKeyRing } from '../../../api/http/key-ring.ts';
import { postJson } from '../../../api/http/post.ts';
import { serve } from '../../../api/http/serve.ts';
import type { JsonObject } from '../../../ingest/events/json.ts';
import { fileArtifacts } from '../../../ingest/log/artifacts.ts';
import { postgresBook, postgresLog } from '../../../ingest/log/postgres.ts';
import { judge } from '../../../store/evaluate/judging/judge.ts';
import { requestRollout } from '../../../store/loop/play/request.ts';
import { runProjector } from '../../../store/projecting/projector.ts';
import { type JobContext, waitForJob } from '../../../store/queue/jobs/jobs.ts';
import { runJobs } from '../../../store/queue/jobs/worker.ts';
import type { WebhookBody } from '../../../trainer/loop/play/by-webhook.ts';
import { type RolloutResult, rolloutHandlers } from '../../../trainer/loop/play/handler.ts';
import { readRunners } from '../../../trainer/loop/play/runners.ts';
import type { SampleAnswer, SampleAsk } from '../../../trainer/sample/infer-wire.ts';
import { type TestApp, testApp } from '../../api/support/app.ts';
import { type OpenaiServer, openaiServer } from '../../api/support/openai-server.ts';
import { event } from '../../store/support/events.ts';

// biome-ignore lint/suspicious/noExplicitAny: bodies of four interfaces
type Body = any;

/** What the policy was asked to sample; its answer depends on the seed, and the executor calls a tool where it is offered one. */
const sampled: SampleAsk[] = [];
const speaker: PolicyServers = {
  models: async () => ['policy:solver'],
  prompt: async () => ({ prompt_token_ids: [7], model: 'solver', checkpoint: 'c-1' }),
  sample: async (_, ask): Promise<SampleAnswer> => {
    sampled.push(ask);
    const seed = ask.seed ?? 0;
    const calls = ask.tools !== undefined && !ask.messages?.some(({ role }) => role === 'tool');
    const text = `draw ${seed} makes ${seed % 100}`;
    return {
      choices: [
        {
          token_ids: [seed % 1000, 1, 2],
          logprobs: [-0.5, -0.25, -1],
          text,
          ...(calls ? { called: { content: '', calls: [{ name: 'look_up', arguments: '{"word": "seven"}' }] } } : {}),
          finish_reason: 'stop',
        },
      ],
      prompt_token_ids: [7, 8, 9],
      model: 'solver',
      checkpoint: 'c-1',
      usage: { prompt_tokens: 3, completion_tokens: 3 },
    };
  },
};

let at: TestApp;
let context: JobContext;
let server: OpenaiServer;
let upstreams: Upstreams;
let team: Server;
let url: string;
const folder = mkdtempSync(join(tmpdir(), 'troupe-replays-'));
const stop = new AbortController();
const running: Promise<unknown>[] = [];
/** How the team plays; a test may have it play otherwise. */
let play: (body: WebhookBody) => Promise<number>;
/** How often the team was asked. */
let played = 0;

beforeAll(async () => {
  server = await openaiServer();
  upstreams = openUpstreams(readUpstreams({ main: { base_url: server.baseUrl, models: ['echo', 'tools'] } }, {}));
  at = await testApp({ upstreams, policyServers: speaker, artifacts: fileArtifacts(folder) });
  ({ url } = await serve(at.app, { host: '127.0.0.1', port: 0 }));
  context = { db: at.db, log: postgresLog(at.db), now: () => new Date() };
  team = createServer(async (request, response) => {
    played++;
    const body = JSON.parse(await text(request)) as WebhookBody;
    try {
      const reward = await play(body);
      response.end(JSON.stringify({ reward, outcome: reward === 1 ? 'success' : 'failure' }));
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  });
  await new Promise<void>((resolve) => team.listen(0, '127.0.0.1', resolve));
  running.push(runProjector(at.db, { signal: stop.signal, onTrouble: () => {} }));
  const webhook = `http://127.0.0.1:${(team.address() as AddressInfo).port}/play`;
  const runners = readRunners({ team: { webhook, private: true, url, retries: 1, reward: 'answer' } });
  const settings = { runners, env: { ...process.env }, post: postJson(), signal: stop.signal };
  const handlers = rolloutHandlers(context, settings);
  running.push(runJobs(context, { worker: 'w', handlers, signal: stop.signal, pollMs: 20 }));
});
afterAll(async () => {
  stop.abort();
  await Promise.all(running);
  team.closeAllConnections();
  await new Promise((resolve) => team.close(resolve));
  await at.close();
  upstreams.close();
  await server.close();
  rmSync(folder, { recursive: true });
});
beforeEach(() => {
  play = playAll;
  played = 0;
});

const PATHS: Readonly<Record<string, string>> = {
  chat: 'chat/completions',
  text: 'completions',
  messages: 'messages',
  responses: 'responses',
};
/** One call of an agent; a streamed answer comes back put together. */
async function call({ episode_url }: WebhookBody, agent: string, kind: Kind, body: JsonObject): Promise<Body> {
  const answer = await fetch(`${episode_url}/a/${agent}/v1/${PATHS[kind]}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  if (body.stream !== true) return answer.json();
  const capture = captureAnswer(kind, { 'content-type': answer.headers.get('content-type')! }, 1e6, () => 0);
  capture.add(Buffer.from(await answer.arrayBuffer()));
  return (await readAnswer(capture.taken(), 1e6)).response as Body;
}

const promptOf = ({ task }: WebhookBody): string => String((task as Body).prompt);
const TOOLS = [{ type: 'function', function: { name: 'look_up', parameters: { type: 'object' } } }];
const numberIn = (text: string): number => Number(/(\d+)\D*$/.exec(text)?.[1] ?? 0);

/** Four agents over three interfaces, a policy and a model server; whole answers and streams. The reward is 1 where the number is even. */
const playAll = async (body: WebhookBody): Promise<number> => {
  const own = { model: 'policy:solver', seed: body.seed };
  const question = { role: 'user', content: promptOf(body) };
  const plan = await call(body, 'planner', 'chat', { ...own, messages: [question], stream: true });
  const planned = plan.choices[0].message.content as string;
  const asked = [question, { role: 'user', content: planned }];
  const look = await call(body, 'executor', 'chat', { ...own, messages: asked, tools: TOOLS });
  const { message } = look.choices[0];
  const found = { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'seven is 7' };
  const done = await call(body, 'executor', 'chat', { ...own, messages: [...asked, message, found], tools: TOOLS });
  const result = done.choices[0].message.content as string;
  const echo = await call(body, 'critic', 'chat', {
    model: 'echo',
    messages: [{ role: 'user', content: result }],
    stream: true,
  });
  const check = await call(body, 'checker', 'messages', {
    ...{ ...own, max_tokens: 50, stream: true },
    messages: [{ role: 'user', content: `${result} ${echo.choices[0].message.content}` }],
  });
  const input = `${check.content[0].text} of ${result}`;
  const last = await call(body, 'writer', 'responses', { ...own, input, stream: body.sample % 2 === 0 });
  await call(body, 'writer', 'responses', { model: 'tools', input: last.output[0].content[0].text, stream: true });
  return numberIn(last.output[0].content[0].text) % 2 === 0 ? 1 : 0;
};

/** A chain of two agents; `other` is the gateway that the second one gets. */
const playPair = async (body: WebhookBody, other = body): Promise<number> => {
  const own = { model: 'policy:solver', seed: body.seed };
  const ask = async (at: WebhookBody, agent: string, content: string) => {
    const answer = await call(at, agent, 'chat', { ...own, messages: [{ role: 'user', content }] });
    return answer.choices[0].message.content as string;
  };
  const draft = await ask(body, 'drafter', promptOf(body));
  const answer = await ask(other, 'fixer', `Improve: ${draft}`);
  const { wanted } = body.task as Body;
  return wanted === undefined ? numberIn(answer) % 2 : Number(numberIn(draft) === wanted);
};

const rollout = async (id: string, spec: JsonObject): Promise<RolloutResult> => {
  await requestRollout(context, id, { runner: 'team', samples: 1, seed: 5, ...spec } as never);
  const result = (await waitForJob(at.db, id, { timeoutMs: 120_000 })) as RolloutResult;
  await at.project();
  return result;
};
type Step = JsonObject & { readonly step_id: string; readonly call_id: string };
const stepsOf = async (episode: string): Promise<Step[]> =>
  (
    await at.db.query<Step>(
      `select s.step_id, s.call_id, s.agent, s.text, s.content, s.token_ids, s.logprobs, s.checkpoint_id, s.untrainable, s.parent_step_id,
              c.context, c.copied, c.response_id, c.requested_unmapped -> 'replay' as replay, s.seed
       from traj.steps s join facts.calls c using (episode_id, call_id) where episode_id = $1 order by s.requested_at, s.call_id`,
      [episode],
    )
  ).rows;
const episodeOf = async (id: string) =>
  (await at.db.query<JsonObject>('select * from traj.episodes where episode_id = $1', [id])).rows[0]!;
const judged = async (method: string, where: string) => {
  const { rows } = await at.db.query<{ episode_id: string }>(
    `select episode_id from traj.episodes where episode_id like $1 order by 1`,
    [where],
  );
  await judge(at.db, context.log, {
    methods: [{ method }],
    episodes: rows.map((row) => row.episode_id),
    now: () => new Date(),
  });
};
const same = ({ step_id, agent, text, content, token_ids, logprobs, checkpoint_id, context: read }: Step) => ({
  ...{ step_id, agent, text, content, token_ids, logprobs, checkpoint_id, read },
});

describe('a replay up to the end', () => {
  it('gives the same calls, with nothing sampled and nothing asked of a model server', async () => {
    await rollout('whole', { tasks: [{ task_id: 'sum', prompt: '3 + 4?' }] });
    const source = await stepsOf('whole/sum/0');
    expect(source.map(({ agent }) => agent)).toEqual([
      'planner',
      'executor',
      'executor',
      'critic',
      'checker',
      'writer',
      'writer',
    ]);
    const before = [sampled.length, server.asked.length];
    const result = await rollout('again', { replay: { episode_id: 'whole/sum/0', from: 'end' }, samples: 2 });
    expect([sampled.length, server.asked.length]).toEqual(before);
    expect(result).toMatchObject({ groups: { complete: 1, partial: 0 }, replayed_calls: 14, tokens: null });
    expect(result.episodes).toEqual(['again/sum/from/0/0', 'again/sum/from/0/1']);
    const first = await episodeOf('whole/sum/0');
    for (const episode of result.episodes) {
      const steps = await stepsOf(episode);
      expect(steps.map(same)).toEqual(source.map(same));
      for (const step of steps) {
        expect(step).toMatchObject({ copied: true, untrainable: 'copied', response_id: null });
        expect(step.replay).toEqual({ of: { episode_id: 'whole/sum/0', call_id: step.call_id } });
      }
      expect(await episodeOf(episode)).toMatchObject({
        ...{ reward: first.reward, outcome: first.outcome, input_tokens: null, output_tokens: null },
        tags: { replay_of: 'whole/sum/0' },
      });
    }
    const tools = await at.db.query(`select episode_id, count(*)::int as n from traj.tool_calls group by 1 order by 1`);
    expect(new Set(tools.rows.map(({ n }) => n)).size).toBe(1);
    // A replay is itself a source; where its calls were sampled stays known.
    await rollout('thrice', { replay: { episode_id: 'again/sum/from/0/0', from: 'end' } });
    const [step] = await stepsOf('thrice/sum/from/0/0');
    expect(step!.replay).toMatchObject({ of: { episode_id: 'whole/sum/0' } });
  });
});

describe('a branch', () => {
  it('shares what came before its place, byte for byte, and is sampled from there', async () => {
    const source = await stepsOf('whole/sum/0');
    const place = source[2]!;
    const before = sampled.length;
    const result = await rollout('branch', { replay: { episode_id: 'whole/sum/0', from: place.call_id }, samples: 3 });
    expect(result).toMatchObject({ groups: { complete: 1 }, replayed_calls: 6 });
    expect(result.episodes).toEqual([0, 1, 2].map((i) => `branch/sum/from/0/${i}`));
    // From the place on three calls of an attempt are sampled; two go to the model server.
    expect(sampled.length - before).toBe(9);
    const own = await Promise.all(result.episodes.map(stepsOf));
    for (const steps of own) {
      expect(steps.slice(0, 2).map(same)).toEqual(source.slice(0, 2).map(same));
      expect(steps[2]).toMatchObject({
        ...{
          copied: null,
          untrainable: null,
          agent: 'executor',
          parent_step_id: source[1]!.step_id,
          context: place.context,
        },
        replay: { at: { episode_id: 'whole/sum/0', call_id: place.call_id } },
      });
    }
    // The team names the seed of the source again; each sample gets one of its own.
    expect(new Set([place, ...own.map((steps) => steps[2]!)].map(({ seed }) => seed)).size).toBe(4);
    expect(await episodeOf('branch/sum/from/0/1')).toMatchObject({
      ...{ group_id: 'branch/sum/from/0', group_size: 3, task_id: 'sum' },
      tags: { replay_of: 'whole/sum/0', replay_from: place.step_id, rollout: 'branch' },
    });
  });

  it('is grown from every step that fits a filter', async () => {
    const result = await rollout('filtered', {
      replay: { where: `tags.rollout = whole and (role = planner or role = checker)` },
    });
    expect(result.episodes).toEqual(['filtered/sum/from/0/0', 'filtered/sum/from/1/0']);
    const copied = await Promise.all(
      result.episodes.map(async (one) => (await stepsOf(one)).filter((step) => step.copied === true).length),
    );
    expect(copied).toEqual([0, 4]);
  });

  it('does what it was asked once when it is asked for again, and refuses another request under its name', async () => {
    const replay = { where: `tags.rollout = whole and (role = planner or role = checker)` };
    const times = played;
    await rollout('filtered', { replay });
    expect(played).toBe(times);
    await expect(rollout('filtered', { replay, samples: 2 })).rejects.toMatchObject({ code: 'conflict' });
  });
});

describe('a team that does something else before the place', () => {
  it('is refused, is not tried again, and is no replay: the result and the episode say where and why', async () => {
    play = (body) => playAll({ ...body, task: { ...body.task, prompt: 'Today: 3 + 4?' } as WebhookBody['task'] });
    const place = (await stepsOf('whole/sum/0'))[4]!;
    const before = sampled.length;
    const result = await rollout('other', { replay: { episode_id: 'whole/sum/0', from: place.step_id }, samples: 1 });
    expect(sampled.length).toBe(before);
    expect(played).toBe(1);
    const why = `The replay of whole/sum/0 diverged before call ${place.call_id}: A call of planner has another request than call `;
    expect(result).toMatchObject({ episodes: [], groups: { complete: 0, partial: 1 }, replayed_calls: 0 });
    expect(result.partial[0]!.why).toEqual([{ code: 'diverged', message: expect.stringContaining(why), samples: 1 }]);
    expect(result.partial[0]!.why[0]!.message).toMatch(/message 0 was .*3 \+ 4.* and is .*Today/);
    const { tags, outcome, stop_reason, reward } = await episodeOf('other/sum/from/0/0');
    expect({ outcome, reward, tags }).toEqual({
      ...{ outcome: 'error', reward: null },
      tags: { rollout: 'other', sample: 0, replay_tried: 'whole/sum/0' },
    });
    expect(stop_reason).toContain(why);
  });

  it('also where it ends before the place, or calls once more than was recorded', async () => {
    play = async (body) => {
      await call(body, 'planner', 'chat', {
        ...{ model: 'policy:solver', messages: [{ role: 'user', content: promptOf(body) }] },
      });
      return 1;
    };
    const place = (await stepsOf('whole/sum/0'))[4]!;
    const short = await rollout('short', { replay: { episode_id: 'whole/sum/0', from: place.step_id } });
    expect(short.partial[0]!.why[0]!.message).toBe(
      `It ended after 1 recorded calls, before it came to call ${place.call_id}.`,
    );
    play = async (body) => {
      const reward = await playAll(body);
      await call(body, 'planner', 'chat', { model: 'policy:solver', messages: [{ role: 'user', content: 'more' }] });
      return reward;
    };
    const long = await rollout('long', { replay: { episode_id: 'whole/sum/0', from: 'end' } });
    expect(long.partial[0]!.why[0]!.message).toContain('A call of planner came after the last call that was recorded.');
  });
});

describe('what is changed at the place', () => {
  beforeAll(async () => {
    play = (body) => playPair(body);
    await rollout('pair', { tasks: [{ task_id: 'p', prompt: 'Say a number.', wanted: 1000 }] });
  });
  beforeEach(() => {
    play = (body) => playPair(body);
  });

  it('a fault lands in exactly the named step, and is labelled there', async () => {
    play = async (body) => 1 - (await playPair(body));
    await rollout('good', { tasks: [{ task_id: 'g', prompt: 'Say a number.', wanted: 1000 }] });
    play = (body) => playPair(body);
    const [drafted, fixed] = await stepsOf('good/g/0');
    const result = await rollout('faulty', {
      replay: { episode_id: 'good/g/0', from: drafted!.step_id, fault: 'wrong-number' },
    });
    const [episode] = result.episodes;
    const steps = await stepsOf(episode!);
    const number = numberIn(String(drafted!.text));
    expect(steps[0]).toMatchObject({
      ...{
        agent: 'drafter',
        text: String(drafted!.text).replace(/\d+$/, String(number + 1)),
        copied: true,
        token_ids: null,
      },
    });
    expect(steps[1]).toMatchObject({ agent: 'fixer', copied: null, untrainable: null });
    expect(steps[1]!.context).not.toBe(fixed!.context);
    const labels = await at.db.query(
      `select target_id, kind, name, by from traj.feedback where episode_id = $1 and kind = 'failure'`,
      [episode],
    );
    expect(labels.rows).toEqual([{ target_id: steps[0]!.step_id, kind: 'failure', name: 'FM-2.6', by: 'env' }]);
    await judged('injected_label', '%/g/%');
    const blamed = await at.db.query(
      `select agent_id, detail ->> 'step_id' as step_id from traj.blames where episode_id = $1 and agent_id is not null`,
      [episode],
    );
    expect(blamed.rows).toEqual([{ agent_id: 'drafter', step_id: drafted!.step_id }]);
  });

  it('a corrected answer turns failure into success, and the step is the decisive one', async () => {
    const [drafted, fixed] = await stepsOf('pair/p/0');
    expect(await episodeOf('pair/p/0')).toMatchObject({ outcome: 'failure' });
    const answer = 'It is 1000';
    await rollout('late', { replay: { episode_id: 'pair/p/0', from: fixed!.step_id, answer } });
    await rollout('early', { replay: { episode_id: 'pair/p/0', from: drafted!.step_id, answer } });
    expect(await episodeOf('late/p/from/0/0')).toMatchObject({ outcome: 'failure' });
    expect(await episodeOf('early/p/from/0/0')).toMatchObject({
      outcome: 'success',
      tags: { intervention: { kind: 'correct', step_id: drafted!.step_id, agent: 'drafter', fulfilled: true } },
    });
    const [put] = await stepsOf('early/p/from/0/0');
    expect(put).toMatchObject({ text: answer, copied: null, untrainable: 'no_token_ids' });
    await judged('decisive_error', '%/p/%');
    const blamed = await at.db.query(
      `select agent_id, step_id from traj.blames where method = 'decisive_error' and episode_id = 'pair/p/0' and agent_id is not null`,
    );
    expect(blamed.rows).toEqual([{ agent_id: 'drafter', step_id: drafted!.step_id }]);
  });

  it('repairs of every coalition of agents give each its share of the blame', async () => {
    const [drafted, fixed] = await stepsOf('pair/p/0');
    const repair = { episode_id: 'pair/p/0', kind: 'repair' };
    await rollout('fix-d', { replay: { ...repair, from: drafted!.step_id, answers: { drafter: 'It is 1000' } } });
    await rollout('fix-f', { replay: { ...repair, from: fixed!.step_id, answers: { fixer: 'It is 1000' } } });
    await rollout('fix-b', {
      replay: { ...repair, from: drafted!.step_id, answers: { drafter: 'It is 1000', fixer: 'It is 1000' } },
    });
    await judged('shapley', '%/p/%');
    const shares = await at.db.query(
      `select agent_id, value from traj.blames where episode_id = 'pair/p/0' and method = 'shapley' order by agent_id`,
    );
    // The drafter decides alone.
    expect(shares.rows).toEqual([
      { agent_id: 'drafter', value: 1 },
      { agent_id: 'fixer', value: 0 },
    ]);
  });

  it('a hypothesis is validated by two of three edited replays that succeed', async () => {
    const [drafted] = await stepsOf('pair/p/0');
    const edit = { episode_id: 'pair/p/0', from: drafted!.step_id, kind: 'edit', hypothesis: 'the draft is wrong' };
    await rollout('edited', { replay: { ...edit, answer: 'It is 1000' }, samples: 3 });
    await judged('dover_verdict', '%/p/%');
    const verdicts = await at.db.query(
      `select agent_id, step_id, reason, detail ->> 'hypothesis' as hypothesis from traj.blames
       where episode_id = 'pair/p/0' and method = 'dover_verdict'`,
    );
    expect(verdicts.rows).toEqual([
      { agent_id: 'drafter', step_id: drafted!.step_id, reason: 'validated', hypothesis: 'the draft is wrong' },
    ]);
  });

  it('a skipped step is left out of every prompt after it; where none holds it, that is reported', async () => {
    const [drafted, fixed] = await stepsOf('pair/p/0');
    const result = await rollout('skip', { replay: { episode_id: 'pair/p/0', from: drafted!.step_id, skip: true } });
    const steps = await stepsOf(result.episodes[0]!);
    expect(same(steps[0]!)).toEqual(same(drafted!));
    expect(sampled.at(-1)!.messages).toEqual([{ role: 'user', content: 'Improve:' }]);
    const none = await rollout('skip-last', { replay: { episode_id: 'pair/p/0', from: fixed!.step_id, skip: true } });
    expect(none.partial[0]!.why[0]!.message).toBe(
      `No prompt after call ${fixed!.call_id} holds its answer, so nothing was left out.`,
    );
  });

  it('another API process goes on where the first one was', async () => {
    const [drafted] = await stepsOf('pair/p/0');
    const { db } = at;
    const app = await buildApp({
      ...{ db, log: context.log, book: postgresBook(db), artifacts: fileArtifacts(folder), keys: openKeyRing(db) },
      ...{ policyServers: speaker, reader: async () => null, project: 'test', version: '0.0.0' },
    });
    const second = await serve(app, { host: '127.0.0.1', port: 0 });
    play = (body) => playPair(body, { ...body, episode_url: body.episode_url.replace(url, second.url) });
    const skip = await rollout('skip-on', { replay: { episode_id: 'pair/p/0', from: drafted!.step_id, skip: true } });
    expect(skip.groups).toEqual({ complete: 1, partial: 0 });
    expect(sampled.at(-1)!.messages).toEqual([{ role: 'user', content: 'Improve:' }]);
    const answers = { drafter: 'It is 1000', fixer: 'It is 1' };
    const both = await rollout('both-on', { replay: { episode_id: 'pair/p/0', from: drafted!.step_id, answers } });
    expect((await stepsOf(both.episodes[0]!)).map(({ text }) => text)).toEqual(['It is 1000', 'It is 1']);
    app.server.closeAllConnections();
    await app.close();
  });

  it('an instruction is added to the prompt of that step alone', async () => {
    const [drafted] = await stepsOf('pair/p/0');
    const result = await rollout('instructed', {
      replay: { episode_id: 'pair/p/0', from: drafted!.step_id, fault: 'no-end' },
    });
    const asked = sampled.slice(-2).map(({ messages }) => messages![0]!.content as string);
    expect(asked[0]).toMatch(/^Say a number\.\n\nDo not finish\./);
    expect(asked[1]).toMatch(/^Improve: /);
    const labels = await at.db.query(
      `select target_id, name from traj.feedback where episode_id = $1 and kind = 'failure'`,
      [result.episodes[0]],
    );
    expect(labels.rows).toEqual([{ target_id: (await stepsOf(result.episodes[0]!))[0]!.step_id, name: 'FM-1.5' }]);
  });
});

describe('a tree that grew by replays', () => {
  /** Three roles; the last one is right where its number is even. */
  const playTriple = async (body: WebhookBody): Promise<number> => {
    const own = { model: 'policy:solver', seed: body.seed };
    let message = promptOf(body);
    for (const agent of ['generator', 'verifier', 'refiner']) {
      const answer = await call(body, agent, 'chat', { ...own, messages: [{ role: 'user', content: message }] });
      message = answer.choices[0].message.content;
    }
    return numberIn(message) % 2 === 0 ? 1 : 0;
  };

  it('is read as one tree by the methods that value trees: two answers a role, eight leaves', async () => {
    play = playTriple;
    const grow = (role: string, of: string) => ({ replay: { where: `tags.tree = ${of} and role = ${role}` } });
    const tags = { tree: 'malt' };
    await rollout('t0', { tasks: [{ task_id: 'm', prompt: 'Say a number.' }], samples: 2, tags });
    expect((await rollout('t1', { ...grow('verifier', 'malt'), tags })).episodes).toHaveLength(2);
    expect((await rollout('t2', { ...grow('refiner', 'malt'), tags })).episodes).toHaveLength(4);
    const { rows: steps } = await at.db.query<{ role: string; n: number }>(
      `select role, count(*)::int as n from traj.steps s join traj.episodes e using (episode_id)
       where e.tags ->> 'tree' = 'malt' and s.untrainable is null group by 1 order by 1`,
    );
    expect(steps).toEqual([
      { role: 'generator', n: 2 },
      { role: 'refiner', n: 8 },
      { role: 'verifier', n: 4 },
    ]);
    for (const method of ['malt_values', 'masprm_backprop', 'mars2_tree_shaping']) await judged(method, 't_/m%');
    const rewards = await at.db.query<{ episode_id: string; reward: number }>(
      `select episode_id, reward from traj.episodes where tags ->> 'tree' = 'malt'`,
    );
    const mean = rewards.rows.reduce((sum, { reward }) => sum + reward, 0) / 8;
    const { rows } = await at.db.query<{ role: string; value: number; n: number }>(
      `select s.role, avg(c.value)::float8 as value, count(*)::int as n from traj.credits c join traj.steps s using (episode_id, step_id)
       where c.method = 'malt_values' and c.reason is null group by 1 order by 1`,
    );
    // Every level has the same mean: that of the leaves.
    expect(rows).toEqual([
      { role: 'generator', value: mean, n: 2 },
      { role: 'refiner', value: mean, n: 8 },
      { role: 'verifier', value: mean, n: 4 },
    ]);
    const backed = await at.db.query<{ value: number; detail: JsonObject }>(
      `select value, detail from traj.scores where method = 'masprm_backprop'`,
    );
    expect(backed.rows).toEqual([{ value: 2 * mean - 1, detail: { visits: 8 } }]);
    await judged('at_grpo_advantage', 't_/m%');
    const compared = await at.db.query(
      `select s.role, round(sum(c.value)::numeric, 6)::float8 as sum, count(*)::int as n from traj.credits c join traj.steps s using (episode_id, step_id)
       where c.method = 'at_grpo_advantage' and c.value is not null group by 1 order by 1`,
    );
    // Siblings of one prompt, and only they, are compared: in each pair the advantages add up to 0.
    expect(compared.rows).toEqual(
      ['generator', 'refiner', 'verifier'].map((role, i) => ({ role, sum: 0, n: [2, 8, 4][i] })),
    );
    const shaped = await at.db.query(
      `select reason, count(*)::int as n from traj.rewards where method = 'mars2_tree_shaping' group by 1 order by 1`,
    );
    expect(shaped.rows).toEqual([
      { reason: 'copied', n: 10 },
      { reason: null, n: 14 },
    ]);
  });
});

describe('an episode that cannot be replayed', () => {
  const asked = (replay: JsonObject) => rollout('never', { replay });
  it('is refused with the reason', async () => {
    await expect(asked({ episode_id: 'nowhere', from: 'end' })).rejects.toMatchObject({ code: 'not_found' });
    await context.log.append([
      event('episode.started', { episode_id: 'foreign', task_id: 'sum' }),
      event('generation.requested', { episode_id: 'foreign', call_id: 'f1', input: [{ role: 'user', content: 'x' }] }),
      event('generation.completed', { episode_id: 'foreign', call_id: 'f1', choices: [{ index: 0, content: 'y' }] }),
    ]);
    await at.project();
    await expect(asked({ episode_id: 'foreign', from: 'end' })).rejects.toMatchObject({
      code: 'input_refused',
      message: expect.stringContaining('the gateway did not record it'),
    });
    const [first] = await stepsOf('whole/sum/0');
    await expect(asked({ episode_id: 'whole/sum/0' })).rejects.toMatchObject({ code: 'usage' });
    await expect(asked({ episode_id: 'whole/sum/0', from: 'end', fault: 'no-end' })).rejects.toMatchObject({
      code: 'usage',
    });
    await expect(
      asked({ episode_id: 'whole/sum/0', from: first!.step_id, fault: 'no-end', skip: true }),
    ).rejects.toMatchObject({ code: 'usage' });
  });
});
