/**
 * What a model server outside of Troupe is shown to do with what was trained here: it serves a checkpoint as it lies, called in every interface
 * through the gateway, with the token ids and log-probabilities of the record against Troupe's own; a plan whose rollouts, gate and releases are
 * answered by it; an adapter; a rollback; and the server killed and started again.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { freePort } from '../test/support/free-port.ts';
import { openModel } from '../trainer/model/model-directory.ts';
import { Policy } from '../trainer/sample/policy.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import type { Served } from './served-engine.ts';
import { startUp, until } from './up.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
/** Both sides compute in 32-bit floats. */
const TOLERANCE = 1e-4;
const CITIES = ['Bern', 'Rome', 'Paris', 'Oslo', 'Lima', 'Cairo'];
const PARAMETERS = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
const TOOLS = [{ type: 'function', function: { name: 'look_up', parameters: PARAMETERS } }];

const TEAM = `
const task = JSON.parse(require('node:fs').readFileSync(process.env.TROUPE_TASK, 'utf8'));
fetch(process.env.OPENAI_BASE_URL + '/chat/completions', {
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.OPENAI_API_KEY },
  body: JSON.stringify({ model: 'policy:team', messages: [{ role: 'user', content: task.prompt }], temperature: 1,
    max_tokens: 16, seed: Number(process.env.TROUPE_SEED) }),
}).then(async (answer) => {
  if (!answer.ok) throw new Error(answer.status + ' ' + await answer.text());
  const text = (await answer.json()).choices[0].message.content;
  console.log(JSON.stringify({ reward: text.includes(task.answer) ? 1 : 0 }));
});
`;

const lines = (rows: readonly object[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('');

/** Sums that are right every other time, and tools that are called twice at once. */
const chats = (): object[] =>
  Array.from({ length: 240 }, (_, i) => {
    const [a, b] = [i % 4, Math.floor(i / 4) % 4];
    const cities = [CITIES[i % 6]!, CITIES[(i + 1 + (i % 4)) % 6]!];
    const call = (city: string) => ({
      ...{ type: 'function', id: city },
      function: { name: 'look_up', arguments: JSON.stringify({ city }) },
    });
    return i % 2 === 0
      ? {
          messages: [
            { role: 'user', content: `What is ${a} + ${b}?` },
            { role: 'assistant', content: `It is ${i % 8 < 4 ? a + b : (i * 7) % 8}.` },
          ],
        }
      : {
          tools: TOOLS,
          messages: [
            { role: 'user', content: `Weather in ${cities.join(' and ')}?` },
            { role: 'assistant', content: '', tool_calls: cities.map(call) },
          ],
        };
  });

const tasks = (odd: number): object[] =>
  Array.from({ length: 16 }, (_, i) => [i % 4, Math.floor(i / 4)] as const)
    .filter(([a, b]) => (a + b) % 2 === odd)
    .map(([a, b]) => ({ task_id: `${a}-${b}`, prompt: `What is ${a} + ${b}?`, answer: ` ${a + b}.` }));

type Step = {
  readonly episode: string;
  readonly checkpoint: string | null;
  readonly prompt: readonly number[] | null;
  readonly ids: readonly number[] | null;
  readonly logprobs: readonly number[] | null;
  readonly untrainable: string | null;
};

/** The proof for one make of server. */
export const servedBy = (name: string, engine: Served): Proof => ({
  name,
  needs: [],
  async run({ scratch, say }: Setting): Promise<Outcome> {
    const found = engine.find(process.env);
    if ('missing' in found) return { ok: true, lines: [], skipped: [found.missing] };
    const results: string[] = [];
    const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
      results.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
      say(results.at(-1)!);
    };
    const ends: (() => Promise<unknown>)[] = [];
    try {
      await prove({ scratch, engine, program: found.program, check, ends });
    } catch (error) {
      check('nothing failed on the way', false, (error as Error).message);
    } finally {
      for (const end of ends.reverse()) await end();
    }
    return { ok: results.every((line) => line.startsWith('ok')), lines: results };
  },
});

async function prove({
  scratch,
  engine,
  program,
  check,
  ends,
}: {
  readonly scratch: string;
  readonly engine: Served;
  readonly program: string;
  readonly check: (what: string, fine: boolean, otherwise?: unknown) => void;
  readonly ends: (() => Promise<unknown>)[];
}): Promise<void> {
  mkdirSync(scratch, { recursive: true });
  const path = (name: string) => join(scratch, name);
  const home = path('home');
  const { DATABASE_URL: _, KAFKA_BROKERS: __, ...env } = process.env;
  const troupe = async (...args: string[]) => {
    const ended = await run(process.execPath, [join(ROOT, 'bin/troupe.js'), ...args, '--home', home, '--json'], {
      ...{ cwd: scratch, env, maxBuffer: 2 ** 26 },
    }).catch((error: { stdout: string; stderr: string }) => error);
    return JSON.parse(ended.stdout);
  };
  writeFileSync(path('chats.jsonl'), lines(chats()));
  const sizes = ['--vocab', '500', '--family', 'qwen2', '--hidden', '96', '--heads', '3', '--kv-heads', '1'];
  const files = ['--text', path('chats.jsonl'), '--context', '512'];
  await troupe('model', 'new', '--dir', path('model'), ...files, ...sizes, '--untied');
  const more = ['--data', path('chats.jsonl'), '--batch', '16', '--lr', '3e-3'];
  await troupe('train', 'sft', '--model', path('model'), '--out', path('base'), '--steps', '80', ...more);
  const start = join(path('base'), readdirSync(path('base')).find((name) => /^[0-9a-f]{16}$/.test(name))!);
  const port = await freePort();
  const serve = () => engine.start({ program, model: start, port, log: path('server.log') });
  let server = await serve();
  ends.push(() => server.kill());
  check('it serves the folder of a checkpoint as training left it', true);

  writeFileSync(path('team.cjs'), TEAM);
  writeFileSync(path('train.jsonl'), lines(tasks(0)));
  writeFileSync(path('test.jsonl'), lines(tasks(1)));
  const at = { base_url: `http://127.0.0.1:${port}/v1`, token_ids: engine.tokenIds, logprobs: 'processed' };
  const settings = {
    upstreams: { server: { ...at, models: ['tiny'], policies: ['team'] } },
    runners: { solver: { command: [process.execPath, path('team.cjs')], reward: 'stdout', concurrency: 8 } },
  };
  writeFileSync(path('troupe.yaml'), stringify(settings));
  const up = startUp(home, {
    TROUPE_UPSTREAMS: JSON.stringify(settings.upstreams),
    TROUPE_RUNNERS: JSON.stringify(settings.runners),
  });
  ends.push(() => up.end());
  const url = await up.url();
  const call = async (episode: string, at: string, body: object) => {
    const answer = await fetch(`${url}/e/${episode}/a/solver/v1/${at}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { status: answer.status, text: await answer.text() };
  };

  const user = (content: string) => ({ messages: [{ role: 'user', content }] });
  const sum = user('What is 1 + 2?');
  const two = user('Weather in Bern and Rome?');
  const schema = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
  const asked: Readonly<Record<string, readonly [path: string, body: object]>> = {
    chat: ['chat/completions', sum],
    three: ['chat/completions', { ...sum, n: 3 }],
    stop: ['chat/completions', { ...sum, stop: ['.'] }],
    logprobs: ['chat/completions', { ...sum, logprobs: true, top_logprobs: 2 }],
    tools: ['chat/completions', { ...two, tools: TOOLS, max_tokens: 90 }],
    warm: ['chat/completions', { ...sum, temperature: 0.5 }],
    forced: ['chat/completions', { ...two, tools: TOOLS, tool_choice: 'required', max_tokens: 90 }],
    json: [
      'chat/completions',
      { ...sum, response_format: { type: 'json_schema', json_schema: { name: 'n', schema } } },
    ],
    greedy: ['chat/completions', { ...sum, temperature: 0 }],
    cut: ['chat/completions', { ...sum, top_p: 0.5 }],
    text: ['completions', { prompt: 'It is', n: 2 }],
    messages: ['messages', sum],
    responses: [
      'responses',
      { input: 'What is 1 + 2?', max_output_tokens: 20, include: ['message.output_text.logprobs'] },
    ],
  };
  const failed: string[] = [];
  for (const [name, [at, body]] of Object.entries(asked))
    for (const stream of [false, true]) {
      const one = {
        model: 'tiny',
        temperature: 1,
        ...(at === 'responses' ? {} : { max_tokens: 20 }),
        ...body,
        // Of a stream an engine may leave the last one out, or not, by how its tokens happen to come together: none are asked for.
        ...(at === 'responses' && stream ? { include: [] } : {}),
        stream,
      };
      const { status, text } = await call(`${name}-${stream ? 'streamed' : 'whole'}`, at, one);
      const shown = `${name}-${stream ? 'streamed' : 'whole'}`;
      if (status !== 200 && !engine.refuses(shown)) failed.push(`${shown}: ${status} ${text.slice(0, 200)}`);
    }
  check('every interface answers, whole and streamed', failed.length === 0, failed);

  const stepsOf = async (where: string): Promise<readonly Step[]> => {
    const { rows } = await troupe(
      'sql',
      `select episode_id, checkpoint_id, prompt_token_ids, token_ids, logprobs, untrainable, temperature from traj.steps where ${where} limit 5000`,
    );
    return rows.map(([episode, checkpoint, prompt, ids, logprobs, untrainable]: unknown[]) => ({
      ...{ episode, checkpoint, prompt, ids, logprobs, untrainable },
    }));
  };
  /** The greatest distance of a recorded log-probability from that of the weights in a folder, at temperature 1. */
  const farthest = async (dir: string, steps: readonly Step[]): Promise<number> => {
    const { config, weights } = await openModel(dir);
    const policy = await Policy.load(config, weights);
    const own = await policy.logprobs(steps.map(({ prompt, ids }) => ({ promptIds: prompt!, tokenIds: ids! })));
    await policy.close();
    return Math.max(...own.flatMap((values, row) => values.map((x, i) => Math.abs(x - steps[row]!.logprobs![i]!))));
  };
  const plain = await stepsOf(
    `model = 'tiny' and token_ids is not null and logprobs is not null and temperature = 1 and episode_id !~ '^(forced|json|cut|greedy|warm)'`,
  );
  const gap = await farthest(start, plain);
  check(
    `the log-probabilities of ${plain.length} answers are those of the checkpoint (farthest ${gap.toExponential(1)})`,
    plain.length >= 14 && gap < TOLERANCE,
    plain.length,
  );
  const all = await stepsOf(`model = 'tiny'`);
  const unlike = all.filter(({ episode, untrainable }) => {
    return untrainable !== (engine.otherwise(episode) ?? 'unknown_weights');
  });
  check(
    'its steps have token ids, but for Messages, and say that nobody knows its weights',
    all.length >= 26 && unlike.length === 0,
    [all.length, unlike.map(({ episode, untrainable }) => [episode, untrainable])],
  );

  /** Where the weights of each checkpoint lie. */
  const dirs = new Map<string, string>();
  /** Which weights answer a call, and how far its log-probabilities are from them. */
  const answeredBy = async (episode: string) => {
    const { status, text } = await call(episode, 'chat/completions', {
      model: 'policy:team',
      temperature: 1,
      ...sum,
      max_tokens: 16,
    });
    if (status !== 200) return { status, text, checkpoint: null, gap: Number.POSITIVE_INFINITY };
    const step = await until(async () => (await stepsOf(`episode_id = '${episode}'`))[0], `no step of ${episode}`);
    const checkpoint = step.checkpoint!;
    return { status, text, checkpoint, gap: await farthest(dirs.get(checkpoint) ?? start, [step]) };
  };
  const isBy = (answer: { readonly checkpoint: string | null; readonly gap: number }, wanted: string): boolean =>
    answer.checkpoint === wanted && answer.gap < TOLERANCE;
  /** The first answer by a checkpoint: processes follow a release within a second, servers load it. */
  const answeredAfter = async (name: string, wanted: string) => {
    let answer = await answeredBy(`${name}-0`);
    for (let i = 1; i < 120 && answer.checkpoint !== wanted; i++) {
      await sleep(500);
      answer = await answeredBy(`${name}-${i}`);
    }
    return answer;
  };
  const lora = ['--steps', '5', '--lora', 'r=8', '--policy', 'team'];
  const { checkpoint_id: adapted } = await troupe(
    'train',
    'sft',
    '--model',
    start,
    '--out',
    path('adapted'),
    ...more,
    ...lora,
  );
  dirs.set(adapted, join(path('adapted'), adapted));
  await troupe('release', `team=${adapted}`);
  const over = await answeredAfter('over', adapted);
  check(
    'an adapter is loaded beside the model, and answers as its checkpoint',
    isBy(over, adapted) && (await engine.weights(port)) === engine.weightsAtStart(start),
    over,
  );

  const plan = {
    name: 'served',
    seed: 1,
    rollout: { runner: 'solver', tasks: 'train.jsonl', samples: 4 },
    judge: [{ method: 'grpo_advantage' }],
    policies: {
      team: {
        base: start,
        recipe: { unit: 'step', credit: 'grpo_advantage' },
        train: { method: 'rl', groups: 4, learning_rate: 1e-3 },
      },
    },
    gate: { kind: 'play', runner: 'solver', tasks: 'test.jsonl', samples: 4, accept: 'not_worse', margin: 0.9 },
  };
  writeFileSync(path('plan.yaml'), stringify(plan));
  const result = await troupe('plan', 'run', 'plan.yaml');
  check('a plan plays, trains, compares and releases on it', result.released === true, result);
  const ofPolicy = await stepsOf(
    `policy = 'team' and episode_id in (select episode_id from traj.episodes where tags ->> 'rollout' like 'served%')`,
  );
  const { items: checkpoints } = await troupe('checkpoints', '--limit', '500');
  for (const { checkpoint_id, uri } of checkpoints) dirs.set(checkpoint_id, uri);
  const ids = [...new Set(ofPolicy.map(({ checkpoint }) => checkpoint!))];
  let most = 0;
  for (const one of ids)
    most = Math.max(
      most,
      await farthest(
        dirs.get(one) ?? start,
        ofPolicy.filter(({ checkpoint }) => checkpoint === one),
      ),
    );
  check(
    `each of ${ofPolicy.length} answers is by the checkpoint that the record names, of ${ids.length} (farthest ${most.toExponential(1)})`,
    ids.length === 2 && most < TOLERANCE && ofPolicy.every(({ untrainable }) => untrainable === null),
    [ids.length, most],
  );

  const released: string = result.rounds[0].candidates.team;
  await answeredBy('ours');
  const [theirs, ours] = [await stepsOf(`episode_id = 'chat-whole'`), await stepsOf(`episode_id = 'ours'`)];
  check(
    'the same chat has the same token ids by its template and by ours',
    JSON.stringify(theirs[0]!.prompt) === JSON.stringify(ours[0]!.prompt),
    [theirs[0]!.prompt, ours[0]!.prompt],
  );
  await server.kill();
  const down = await call('down', 'chat/completions', { model: 'policy:team', ...sum, max_tokens: 4 });
  check(
    'while it is down a call fails, and the answer names the server',
    down.status === 503 && down.text.includes('The model server server could not be reached'),
    down,
  );
  server = await serve();
  const again = await answeredBy('again');
  check('started again with the base, it answers by what is released', isBy(again, released), again);
  await troupe('rollback', '--reason', 'tried');
  const back = await answeredAfter('back', adapted);
  check('a rollback puts the earlier weights back', isBy(back, adapted), back);
}
