/**
 * Proof that a team by the SDKs of OpenAI and Anthropic trains the policy that answers it, in each of the three dialects, streamed: a planner
 * calls a tool, hands over to a writer, several attempts at a task are a group; the group is judged, frozen, trained on and released, and the
 * same client is then answered by the new weights. What the SDK put together is what was recorded, the recorded tokens are what the sampling
 * process draws again, and the trainer's log-probabilities of them are those that were recorded. In the full form with more tasks and rounds.
 */
import { execFile, spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { canonicalJson } from '../ingest/events/json.ts';
import { mapStrings, unescapeText } from '../ingest/events/text.ts';
import { createRecorder } from '../ingest/recorder/recorder.ts';
import { openDataset } from '../store/datasets/read.ts';
import { openModel } from '../trainer/model/model-directory.ts';
import { startInfer } from '../trainer/sample/infer.ts';
import { connectInfer } from '../trainer/sample/infer-client.ts';
import { Policy } from '../trainer/sample/policy.ts';
import { randomStream } from '../trainer/tensor/random.ts';
import { installedTeam, missingTeams } from './clients.ts';
import { openaiClients } from './openai-clients.ts';
import type { Outcome, Proof, Setting } from './proof.ts';
import { scored } from './scored.ts';
import { startUp, until } from './up.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..');
const PROGRAM = join(ROOT, 'bin', 'troupe.js');
const POLICY = 'team';
/** The trainer computes a row in another order of sums than the sampler, both in 32-bit floats; measured: up to 2e-5. */
const MOST_APART = 1e-4;

const LISTS = ['token_ids', 'prompt_token_ids', 'logprobs'] as const;

const FACTS: Readonly<Record<string, string>> = {
  ...{ lamp: 'red', chair: 'blue', desk: 'black', radio: 'white' },
  ...{ phone: 'green', kettle: 'brown', clock: 'grey', table: 'pink' },
};
const PROMPTS = { planner: 'Look the thing up, then hand over what you found.', writer: 'Say it in one word.' };
const tool = (name: string, description: string, field: string) => ({
  type: 'function',
  function: {
    name,
    description,
    parameters: { type: 'object', properties: { [field]: { type: 'string' } }, required: [field] },
  },
});
const TOOLS = [
  tool('look_up', 'What is known of a thing.', 'item'),
  tool('hand_over', 'Ends the plan: the writer goes on.', 'note'),
];

const DIALECTS = {
  chat: 'OpenAI Chat Completions',
  messages: 'Anthropic Messages',
  responses: 'OpenAI Responses',
} as const;
type Dialect = keyof typeof DIALECTS;

/** The SDKs of OpenAI show arguments as the model wrote them, that of Anthropic as an object. */
type Called = { readonly id: string; readonly name: string; readonly written?: string; readonly input?: object };
type Answer = {
  readonly agent: 'planner' | 'writer';
  readonly text: string;
  readonly calls: readonly Called[];
  readonly usage: readonly [number, number];
};
/** An episode as the program of the team says it was. */
type Played = {
  readonly episode: string;
  readonly task: string;
  readonly calls: readonly Answer[];
  readonly results: readonly string[];
  readonly note: string | null;
  readonly answer: string;
};
type Step = {
  readonly step_id: string;
  /** Null where the answer is a call alone. */
  readonly text: string | null;
  /** Null where the answer is a text alone. */
  readonly content: readonly { readonly type: string; readonly name?: string; readonly arguments?: object }[] | null;
  readonly token_ids: readonly number[];
  readonly logprobs: readonly number[];
  readonly prompt_token_ids: readonly number[];
  readonly seed: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly trainable: boolean;
  readonly checkpoint_id: string;
};

export const proof: Proof = {
  name: 'sdk-teams',
  needs: [],
  async run(setting: Setting): Promise<Outcome> {
    const openai = openaiClients(process.env).find(({ language }) => language === 'js')!;
    const missing = [
      ...(existsSync(openai.made) ? [] : [`no OpenAI client (js); say: ${openai.install}`]),
      ...[missingTeams(['anthropic-js'], process.env) ?? []].flat(),
    ];
    if (missing.length > 0) return { ok: true, lines: [], skipped: missing };
    return prove(setting, { openai: openai.folder, anthropic: installedTeam('anthropic-js', process.env) });
  },
};

async function prove(
  { scratch, say, short }: Setting,
  folders: { readonly openai: string; readonly anthropic: string },
): Promise<Outcome> {
  const lines: string[] = [];
  const check = (what: string, fine: boolean, otherwise: unknown = ''): void => {
    lines.push(fine ? `ok  ${what}` : `NOT OK  ${what}: ${JSON.stringify(otherwise)}`);
    say(lines.at(-1)!);
  };
  const { DATABASE_URL: _, KAFKA_BROKERS: __, ...env } = process.env;
  const home = join(scratch, 'home');
  const troupe = async (...args: string[]) => {
    const options = { cwd: scratch, env: { ...env, NO_COLOR: '1' }, maxBuffer: 2 ** 26 };
    const { stdout } = await run(process.execPath, [PROGRAM, ...args, '--home', home, '--json'], options);
    return JSON.parse(stdout);
  };

  writeFileSync(join(scratch, 'lessons.jsonl'), lessons(600));
  await troupe('model', 'new', '--dir', 'new', '--text', 'lessons.jsonl', '--vocab', '400', '--hidden', '64');
  const learn = ['--data', 'lessons.jsonl', '--steps', '200', '--batch', '16', '--lr', '4e-3', '--schedule', 'cosine'];
  const first = await troupe(
    'train',
    'sft',
    '--model',
    'new',
    ...learn,
    '--out',
    join(scratch, 'learnt'),
    '--policy',
    POLICY,
  );
  let [served, at]: [string, string] = [first.checkpoint_id, first.directory];
  await troupe('release', `${POLICY}=${served}`);
  const up = startUp(home);
  const url = await up.url();
  const sql = async <T>(query: string): Promise<T[]> => {
    const answer = await fetch(`${url}/v1/sql`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ sql: query }),
    });
    const { columns, rows, error } = (await answer.json()) as {
      columns: { name: string }[];
      rows: unknown[][];
      error?: unknown;
    };
    if (!answer.ok) throw new Error(JSON.stringify(error));
    return rows.map((row) => Object.fromEntries(row.map((value, i) => [columns[i]!.name, value])) as T);
  };
  const serves = (checkpoint: string) =>
    until(async () => {
      const { serving } = (await (await fetch(`${url}/readyz`)).json()) as { serving: { checkpoint: string | null }[] };
      return serving.some((one) => one.checkpoint === checkpoint);
    }, `no process serves ${checkpoint}`);
  const recorder = createRecorder({ baseUrl: url, source: '/sdk-teams' });
  const socket = join(scratch, 'again.sock');
  const again = await startInfer({ socket, threads: 1 }, Policy.load);
  const client = connectInfer(socket);

  /** The client plays; its episodes are rewarded and closed. */
  async function play(dialect: Dialect, name: string, tasks: readonly string[], samples: number): Promise<Played[]> {
    const folder = dialect === 'messages' ? folders.anthropic : folders.openai;
    const asked = { dialect, model: `policy:${POLICY}`, name, tasks, samples, facts: FACTS, prompts: PROMPTS };
    const child = spawn(process.execPath, [join(ROOT, 'proofs', 'clients', 'sdk-team', 'team.mjs')], {
      env: {
        PATH: process.env.PATH,
        GATEWAY: url,
        CLIENT_FOLDER: folder,
        TEAM: JSON.stringify({ ...asked, tools: TOOLS }),
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
    const played = out.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line) as Played] : []));
    if (played.length !== tasks.length * samples) throw new Error(`The team of ${name} ended: ${err.slice(-2000)}`);
    for (const { episode, task, answer } of played) {
      const right = answer === FACTS[task];
      recorder.finish({ episode_id: episode, outcome: right ? 'success' : 'failure', answer });
      const target = { kind: 'episode', id: episode } as const;
      recorder.feedback({
        feedback_id: `${episode}/reward`,
        target,
        kind: 'reward',
        name: 'reward',
        value: right ? 1 : 0,
      });
    }
    await recorder.flush();
    await until(async () => {
      const [row] = await sql<{ n: number }>(
        `select count(*)::int as n from traj.episodes where starts_with(episode_id, '${name}-') and closed and reward is not null`,
      );
      return row!.n === played.length;
    }, `the episodes of ${name} are not in the tables`);
    return played;
  }

  const stepsOf = async (name: string): Promise<Map<string, Step[]>> => {
    const rows = await sql<Step & { episode_id: string; agent: string }>(
      `select * from traj.steps where starts_with(episode_id, '${name}-') order by requested_at, step_id`,
    );
    const of = new Map<string, Step[]>();
    for (const row of rows) {
      const key = `${row.episode_id} ${row.agent}`;
      of.set(key, [...(of.get(key) ?? []), row]);
    }
    return of;
  };

  async function round(dialect: Dialect, number: number): Promise<void> {
    const sdk = DIALECTS[dialect];
    const name = `${dialect}-${number}`;
    const checked = (what: string, fine: boolean, otherwise?: unknown) => check(`${sdk}, ${what}`, fine, otherwise);
    const tasks = Object.keys(FACTS).slice(0, short ? 5 : 8);
    const played = await play(dialect, name, tasks, short ? 6 : 12);
    const steps = await stepsOf(name);
    const pairs = played.flatMap(({ episode, calls }) =>
      ['planner', 'writer'].flatMap((agent) => {
        const of = calls.filter((one) => one.agent === agent);
        const recorded = steps.get(`${episode} ${agent}`) ?? [];
        return of.map((reported, i) => ({ reported, step: recorded[i]!, all: recorded.length === of.length }));
      }),
    );
    const toolCalls = pairs.filter(({ reported }) => reported.calls.length > 0).length;
    const handed = played.filter(({ note }) => note !== null).length;
    checked(
      `round ${number}: ${played.length} episodes of ${pairs.length} streamed calls, each recorded once; ${toolCalls} call a tool, ${handed} hand over`,
      pairs.every(({ all }) => all) && [...steps.values()].flat().length === pairs.length && handed > played.length / 4,
    );

    const groups = await sql<{ group_id: string; task_id: string; rewards: number[] }>(
      `select group_id, min(task_id) as task_id, array_agg(distinct reward) as rewards from traj.episodes
       where starts_with(episode_id, '${name}-') group by 1`,
    );
    const differ = groups.filter(({ rewards }) => rewards.length > 1).length;
    checked(
      `the attempts at a task are a group; rewards differ within ${differ} of ${groups.length}`,
      differ > 0 &&
        groups.every(({ group_id, task_id }) => group_id === `${name}-${task_id}`) &&
        groups.length === tasks.length,
      groups,
    );
    const unlike = pairs.filter(({ reported, step }) => !saysTheSame(reported, step));
    checked('the text and the calls that the SDK put together are the recorded ones', unlike.length === 0, unlike[0]);
    const billed = pairs.filter(
      ({ reported: { usage }, step }) =>
        usage[0] !== step.prompt_token_ids.length ||
        usage[1] !== step.token_ids.length ||
        usage[0] !== step.input_tokens ||
        usage[1] !== step.output_tokens,
    );
    checked('the tokens that the SDK reports are as many as the recorded ids', billed.length === 0, billed[0]);
    const untrained = pairs.filter(({ step }) => !step.trainable || step.checkpoint_id !== served);
    checked(`every step is trainable and of ${served}`, untrained.length === 0, untrained[0]?.step);

    await again.load({ dir: at, name: 'again' });
    const drawn = await drawAgain(played, steps);
    checked(
      `asked for the same with the same seed, a sampling process draws the recorded tokens with their log-probabilities (${drawn.count} of ${pairs.length} calls)`,
      drawn.wrong.length === 0 && drawn.count === pairs.length,
      drawn.wrong[0],
    );
    const second = played.flatMap(({ episode }) => {
      const [before, after] = steps.get(`${episode} planner`) ?? [];
      return before === undefined || after === undefined ? [] : [{ before, after }];
    });
    const [model, rows] = [await openModel(at), pairs.map(({ step }) => step)];
    // A text may be drawn in other tokens than the tokenizer makes of it, drawn bytes that are no
    // character are not repeated, and the token that ends a call may hold white space behind it, which is no part of the answer.
    const textOf = (ids: readonly number[]) => model.tokenizer.decode([...ids]);
    const drawnOf = ({ prompt_token_ids: prompt, token_ids: ids }: Step) => [...prompt, ...ids];
    const sayable = second.filter(({ before }) => !textOf(before.token_ids).includes('\ufffd'));
    const continued = sayable.filter(({ before, after }) =>
      textOf(after.prompt_token_ids).startsWith(textOf(drawnOf(before)).trimEnd()),
    );
    const exact = continued.filter(({ before, after }) =>
      drawnOf(before).every((id, i) => after.prompt_token_ids[i] === id),
    );
    checked(
      `the second call of a planner reads the first as it was drawn (${continued.length} of ${sayable.length}, ${exact.length} to the token; ${second.length - sayable.length} hold part of a character)`,
      sayable.length > 0 && continued.length === sayable.length && exact.length > 0,
      sayable.find((one) => !continued.includes(one)),
    );
    const computed = await scored(
      model,
      rows.map(({ prompt_token_ids: promptIds, token_ids: tokenIds }) => ({ promptIds, tokenIds })),
    );
    const apart = Math.max(
      ...rows.flatMap(({ logprobs }, i) => logprobs.map((p, t) => Math.abs(p - computed[i]![t]!))),
    );
    checked(
      `the trainer's log-probabilities of ${rows.reduce((sum, { token_ids: ids }) => sum + ids.length, 0)} tokens are the recorded ones, at most ${apart.toExponential(1)} apart`,
      apart <= MOST_APART,
    );

    const method = dialect === 'messages' ? 'grpo_advantage' : 'drmas_advantage';
    await troupe('judge', '--methods', method);
    const [credits] = await sql<{ given: number; signal: number }>(
      `select count(value)::int as given, count(*) filter (where value <> 0)::int as signal from traj.credits
       where method = '${method}' and starts_with(episode_id, '${name}-')`,
    );
    checked(
      `${method} gives ${credits!.signal} of ${credits!.given} credits that are not 0`,
      credits!.signal > 0,
      credits,
    );

    const recipe = join(scratch, `${name}.yaml`);
    const which = groups.map(({ group_id }) => group_id).join(', ');
    writeFileSync(
      recipe,
      `name: ${name}\nunit: step\ncredit: ${method}\nwhere: group.signal and advantage is not null and group_id in (${which})\n`,
    );
    const frozen = await troupe('dataset', 'freeze', recipe);
    const dataset = await openDataset(join(home, 'datasets', frozen.dataset_id));
    // Numbers come as typed arrays.
    const learnt = [...dataset.rows()].map((row) => ({
      ...row,
      ...Object.fromEntries(LISTS.map((list) => [list, [...(row[list] as Iterable<number>)]])),
    })) as unknown as (Step & { readonly role: string })[];
    const byId = new Map(rows.map((row) => [row.step_id, row]));
    const same = learnt.filter((row) => {
      const recorded = byId.get(row.step_id);
      return LISTS.every((list) =>
        row[list].every((value, i) => Math.fround(value) === Math.fround(recorded![list][i]!)),
      );
    });
    const roles = new Set(learnt.map(({ role }) => role));
    checked(
      `${learnt.length} rows of ${[...roles].sort().join(' and ')} are frozen with the recorded ids, prompts and log-probabilities`,
      learnt.length > 0 && same.length === learnt.length && roles.size === 2,
      learnt.find((row) => !same.includes(row)),
    );

    const out = join(home, 'checkpoints');
    const options = ['--groups', '5', '--lr', '1e-3', '--restart'];
    const trained = await troupe(
      'train',
      'rl',
      '--model',
      at,
      '--data',
      name,
      ...options,
      '--out',
      out,
      '--policy',
      POLICY,
    );
    const before = served;
    [served, at] = [trained.checkpoint_id, trained.directory];
    const lineage = await sql<{ n: number }>(
      `select count(distinct step_id)::int as n from traj.lineage where checkpoint_id = '${served}' and relation = 'trained on'`,
    );
    checked(
      `the next checkpoint is trained on these ${lineage[0]!.n} steps`,
      served !== before && lineage[0]!.n === learnt.length,
      trained,
    );
    await troupe('release', `${POLICY}=${served}`);
    await serves(served);
    const probe = `${name}-after`;
    await play(dialect, probe, tasks.slice(0, 1), 1);
    const answered = [...(await stepsOf(probe)).values()].flat();
    checked(
      'and then answers the same client',
      answered.length > 0 && answered.every(({ checkpoint_id }) => checkpoint_id === served),
      answered.map(({ checkpoint_id }) => checkpoint_id),
    );
  }

  /** Asks a sampling process of the proof's own for what each dialect asked for, in the shape of the chat interface. */
  async function drawAgain(played: readonly Played[], steps: ReadonlyMap<string, readonly Step[]>) {
    const asked = played.flatMap((one) => conversations(one, steps));
    const wrong: object[] = [];
    for (const { messages, tools, step } of asked) {
      const { choices, prompt_token_ids: prompt } = await client.sample({
        ...{ model: 'again', messages, seed: step.seed, max_tokens: 48 },
        ...(tools ? { tools: TOOLS, one_call: true } : {}),
      });
      const { token_ids: ids, logprobs } = choices[0]!;
      const isSame = (a: readonly number[], b: readonly number[]) => JSON.stringify(a) === JSON.stringify(b);
      const close = logprobs.every((p, i) => Math.abs(p - step.logprobs[i]!) <= MOST_APART);
      if (!isSame(prompt, step.prompt_token_ids) || !isSame(ids, step.token_ids) || !close)
        wrong.push({ step_id: step.step_id, prompt, recorded: step.prompt_token_ids, ids, drawn: step.token_ids });
    }
    return { count: asked.length, wrong };
  }

  try {
    await serves(served);
    for (let number = 1; number <= (short ? 1 : 2); number++)
      for (const dialect of Object.keys(DIALECTS) as Dialect[]) await round(dialect, number);
  } finally {
    client.close();
    await again.close();
    await up.end();
  }
  return { ok: lines.every((line) => line.startsWith('ok')), lines };
}

/** Whether the SDK and the record have the same text and the same calls. The tables hold U+0000, which this model may draw, as an escape. */
function saysTheSame({ text, calls }: Answer, step: Step): boolean {
  const recorded = (step.content ?? [])
    .filter(({ type }) => type === 'tool_call')
    .map(({ name, arguments: given }) => [name, mapStrings(given, unescapeText)]);
  const reported = calls.map(({ name, written, input }) => [name, input ?? JSON.parse(written!)]);
  return canonicalJson(reported) === canonicalJson(recorded) && text === unescapeText(step.text ?? '');
}

/** What was asked in each call of an episode, in the shape of the chat interface, with its step. */
function conversations(
  { episode, task, calls, results, note }: Played,
  steps: ReadonlyMap<string, readonly Step[]>,
): { readonly messages: { role: string; content: string | null }[]; readonly tools: boolean; readonly step: Step }[] {
  const planned = calls.filter(({ agent }) => agent === 'planner');
  const question = [
    { role: 'system', content: PROMPTS.planner },
    { role: 'user', content: `What colour is the ${task}?` },
  ];
  const turns = planned.map((_, turn) => [
    ...question,
    ...planned.slice(0, turn).flatMap(({ text, calls: made }, i) => [
      {
        role: 'assistant',
        content: text === '' ? null : text,
        tool_calls: made.map(({ id, name, written, input }) => ({
          id,
          type: 'function',
          function: { name, arguments: written ?? input },
        })),
      },
      { role: 'tool', content: results[i]! },
    ]),
  ]);
  const planner = (steps.get(`${episode} planner`) ?? []).map((step, i) => ({
    messages: turns[i]!,
    tools: true,
    step,
  }));
  const writer = (steps.get(`${episode} writer`) ?? []).map((step) => ({
    messages: [
      { role: 'system', content: PROMPTS.writer },
      { role: 'user', content: note! },
    ],
    tools: false,
    step,
  }));
  return [...planner, ...writer];
}

/** Chats that teach the form of both roles, by teachers who err in a third of the things and a seventh of the colours. */
function lessons(count: number): string {
  const { uniform: random } = randomStream(1);
  const [things, colours] = [Object.keys(FACTS), Object.values(FACTS)];
  const any = (list: readonly string[]) => list[Math.floor(random() * list.length)]!;
  const call = (name: string, given: object) => ({
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'a', type: 'function', function: { name, arguments: spaced(given) } }],
  });
  return Array.from({ length: count }, (_, i) => {
    if (i % 3 === 0) {
      const colour = any(colours);
      const messages = [
        { role: 'system', content: PROMPTS.writer },
        { role: 'user', content: colour },
        { role: 'assistant', content: random() < 1 / 7 ? any(colours) : colour },
      ];
      return JSON.stringify({ messages });
    }
    const thing = any(things);
    const item = random() < 1 / 3 ? any(things) : thing;
    const found = FACTS[item]!;
    const messages = [
      { role: 'system', content: PROMPTS.planner },
      { role: 'user', content: `What colour is the ${thing}?` },
      call('look_up', { item }),
      { role: 'tool', tool_call_id: 'a', content: found },
      call('hand_over', { note: random() < 1 / 7 ? any(colours) : found }),
    ];
    return JSON.stringify({ messages, tools: TOOLS });
  }).join('\n');
}

/** JSON of an object of one text, with the space that Python writes, as models do. */
const spaced = (given: object): string => JSON.stringify(given).replace('":"', '": "');
