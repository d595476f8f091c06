/** What the server of the proof has to read: long and wide episodes, two teams with many tasks, a run of a plan with long results; and a model server. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

/** The episode of 1,000 steps, the run of a plan, and the teams that can be compared. */
export const NAMES = { episode: 'long', run: 'run', teams: ['team-a', 'team-b'] } as const;
const TASKS = 3_000;
const STAGES = 30;

type Event = { readonly id: string };
const event = (id: string, name: string, data: object): Event =>
  ({
    specversion: '1.0',
    type: `troupe.${name}.v1`,
    source: '/proof',
    id,
    data,
  }) as Event;

/** Resolves once all is in the tables. */
export async function fill(url: string): Promise<void> {
  const post = async (events: readonly Event[]): Promise<void> => {
    const answer = await fetch(`${url}/v1/events`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-ndjson' },
      body: events.map((one) => JSON.stringify(one)).join('\n'),
    });
    const answerText = await answer.text();
    if (answer.status !== 200)
      throw new Error(`The events were answered ${answer.status}: ${answerText.slice(0, 1000)}`);
  };
  for (const events of [...longEpisode(), ...listed(), ...compared(), planned()]) await post(events);
  const has = async (path: string, is: (body: never) => boolean): Promise<boolean> => {
    const answer = await fetch(`${url}${path}`);
    return answer.ok && is((await answer.json()) as never);
  };
  for (const deadline = performance.now() + 240_000; performance.now() < deadline; await sleep(250)) {
    const there = [
      await has(
        `/v1/episodes/${NAMES.episode}`,
        ({ episode }: { episode: { steps: number } }) => episode.steps === 1000,
      ),
      await has(
        '/v1/episodes?task_id=small&limit=500',
        ({ items }: { items: readonly unknown[] }) => items.length === 500,
      ),
      await has('/v1/episodes/wide-59', () => true),
      await has(
        `/v1/compare?first=${NAMES.teams[0]}&second=${NAMES.teams[1]}`,
        ({ measures }: { measures: readonly { tasks: number }[] }) => measures[0]?.tasks === TASKS,
      ),
      await has(`/v1/plans/${NAMES.run}`, ({ stages }: { stages: readonly unknown[] }) => stages.length === STAGES),
    ];
    if (there.every(Boolean)) return;
  }
  throw new Error('The events were not in the tables after 240 s.');
}

/** 1,000 steps of 10 KB with tokens each. */
function* longEpisode(): Generator<readonly Event[]> {
  const tokens = Array.from({ length: 500 }, (_, i) => i);
  yield [event('start', 'episode.started', { episode_id: NAMES.episode })];
  for (let from = 0; from < 1000; from += 100)
    yield Array.from({ length: 100 }, (_, i) =>
      event(`call-${from + i}`, 'generation.completed', {
        episode_id: NAMES.episode,
        call_id: `c${from + i}`,
        agent_id: 'a',
        choices: [{ index: 0, content: `${from + i} ${'x'.repeat(10_000)}`, token_ids: tokens }],
      }),
    );
}

/** 500 small episodes, and 60 with 200 KB of tags each. */
function* listed(): Generator<readonly Event[]> {
  for (const [task_id, count, length] of [
    ['small', 500, 500],
    ['wide', 60, 200_000],
  ] as const)
    yield Array.from({ length: count }, (_, i) =>
      event(`${task_id}-${i}`, 'episode.started', {
        episode_id: `${task_id}-${i}`,
        task_id,
        tags: { text: 'x'.repeat(length) },
      }),
    );
}

/** Two teams that both tried the same tasks. */
function* compared(): Generator<readonly Event[]> {
  for (const team_id of NAMES.teams) {
    yield [event(team_id, 'team.defined', { team_id, name: team_id })];
    yield Array.from({ length: TASKS }, (_, i) => i).flatMap((i) => {
      const episode_id = `${team_id}-${i}`;
      const outcome = (i * 7 + (team_id === 'team-a' ? 0 : i % 3)) % 5 < 3 ? 'success' : 'failure';
      const choices = [{ index: 0, content: 'x' }];
      return [
        event(`${episode_id}-s`, 'episode.started', { episode_id, task_id: `t${i}`, team_id }),
        event(`${episode_id}-g`, 'generation.completed', { episode_id, call_id: 'c', agent_id: `a${i % 4}`, choices }),
        event(`${episode_id}-f`, 'episode.finished', { episode_id, outcome }),
      ];
    });
  }
}

/** A run of a plan whose stages list 10,000 episodes each. */
function planned(): readonly Event[] {
  const result = { episodes: Array.from({ length: 10_000 }, (_, i) => `episode-${i}-of-a-stage-with-a-long-name`) };
  const job = (job_id: string, kind: string) => [
    event(`${job_id}-r`, 'job.requested', { job_id, kind, spec: {} }),
    event(`${job_id}-s`, 'job.started', { job_id, worker: 'w', token: 1 }),
    event(`${job_id}-f`, 'job.finished', { job_id, outcome: 'done', result }),
  ];
  return [
    ...job(NAMES.run, 'plan'),
    ...Array.from({ length: STAGES }, (_, i) => job(`${NAMES.run}/${i}`, 'rollout')).flat(),
  ];
}

/** The folder of a model that a policy serves, whose responses go on until their last token. */
export async function tinyModel(scratch: string): Promise<string> {
  const [dir, words] = [join(scratch, 'model'), join(scratch, 'words.txt')];
  await writeFile(words, Array.from({ length: 200 }, (_, i) => `word${i}`).join('\n'));
  const args = ['model', 'new', '--dir', dir, '--words', words, '--hidden', '32', '--layers', '1', '--context', '1024'];
  await promisify(execFile)(process.execPath, ['--import', 'tsx', 'cli.ts', ...args], {
    cwd: join(import.meta.dirname, '..'),
  });
  return dir;
}

/** The responses of the model server, by the name of the model. */
const ANSWERS: Readonly<Record<string, (answer: ServerResponse) => void>> = {
  'a-long-text': (answer) =>
    json(answer, { choices: [{ index: 0, message: { role: 'assistant', content: 'word '.repeat(3_000_000) } }] }),
  'many-vectors': (answer) =>
    json(answer, {
      data: Array.from({ length: 100 }, (_, index) => ({
        index,
        embedding: Array.from({ length: 1536 }, (_, i) => Math.sin(index * 1536 + i)),
      })),
    }),
  'many-log-probabilities': (answer) => {
    const top_logprobs = Array.from({ length: 20 }, (_, i) => ({ token: ` t${i}`, logprob: -i / 7, bytes: [116, 48] }));
    const content = Array.from({ length: 4_000 }, () => ({
      token: ' t0',
      logprob: -0.1,
      bytes: [116, 48],
      top_logprobs,
    }));
    json(answer, {
      choices: [{ index: 0, message: { role: 'assistant', content: ' t0'.repeat(4_000) }, logprobs: { content } }],
    });
  },
  'a-long-stream': (answer) => {
    answer.setHeader('content-type', 'text/event-stream');
    for (let i = 0; i < 20_000; i++)
      answer.write(
        `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: `word ${i} ` } }] })}\n\n`,
      );
    answer.end('data: [DONE]\n\n');
  },
  'a-long-line-stream': (answer) => oneLine(answer, 14 * 1024 * 1024),
  'a-line-of-30-mb-stream': (answer) => oneLine(answer, 30_000_000),
};
/** The same servers by the name of their upstream: one of them is asked for token ids, which are taken out of what the client gets. */
export const MODELS = Object.keys(ANSWERS).flatMap((model) =>
  model === 'many-vectors' ? [model] : [model, `ids/${model}`],
);

/** One event of so many bytes, between two small ones. */
function oneLine(answer: ServerResponse, bytes: number): void {
  answer.setHeader('content-type', 'text/event-stream');
  for (const content of ['a', 'word '.repeat(bytes / 5), 'z'])
    answer.write(
      `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content } }] })}\n\n`,
    );
  answer.end('data: [DONE]\n\n');
}

function json(answer: ServerResponse, body: object): void {
  answer.setHeader('content-type', 'application/json').end(JSON.stringify({ id: 'x', ...body }));
}

/** Answers as long as answers of model servers get. */
export async function modelServer(): Promise<{ readonly url: string; readonly close: () => void }> {
  const server: Server = createServer(async (request, answer) => {
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece as Buffer);
    const sent = Buffer.concat(pieces).toString('utf8');
    const model = sent === '' ? '' : String((JSON.parse(sent) as { readonly model: unknown }).model);
    const write = Object.hasOwn(ANSWERS, model) ? ANSWERS[model] : undefined;
    if (write) write(answer);
    else answer.writeHead(404).end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/v1`, close: () => void server.close().closeAllConnections() };
}
