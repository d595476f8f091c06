/**
 * Recorded with the writers of verl (1dda039b, both trainers), verifiers 0.4.0 (episodes as prime-rl dumps them, and a trace) and rLLM
 * (9beb6e0f: `to_dict`; the log of a trainer and the store of an evaluation), with tokens and texts made up.
 */

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, read } from './support/convert.ts';

const path = (name: string): string => join(import.meta.dirname, 'recorded', name);
const lines = (name: string): Data[] =>
  readFileSync(path(name), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line.replaceAll('NaN', '"NaN"')) as Data);

async function imported(...names: string[]) {
  const memory = memoryLog();
  const report = await importFiles(names.map(path), memory);
  const again = await importFiles(names.map(path), memory);
  expect(again.events).toMatchObject({ accepted: 0, rejected: report.events.rejected });
  const of = (name: string) => memory.events.filter((event) => event.name === name).map(({ data }) => data as Data);
  return { report, of };
}

const reward = (of: (name: string) => Data[]) =>
  of('feedback.recorded')
    .filter(({ kind }) => kind === 'reward')
    .map(({ target, value }) => [(target as Data).kind, (target as Data).id, value]);

describe('A dump of verl', () => {
  it('names its version by a step that is a number or a text, and is kept where it is neither', async () => {
    const [row] = lines('verl/rollouts.jsonl');
    const folder = mkdtempSync(join(tmpdir(), 'troupe-verl-'));
    const memory = memoryLog();
    const rows = [7, { toString: false }].map((step) => JSON.stringify({ ...row, step }));
    writeFileSync(join(folder, 'rows.jsonl'), rows.join('\n'));
    expect(await importFiles([join(folder, 'rows.jsonl')], memory)).toMatchObject({ episodes: 2, errors: [] });
    const versions = memory.events.flatMap(({ name, data }) =>
      name === 'generation.completed' ? [(data as Data).model_version] : [],
    );
    expect(versions).toEqual(['7', undefined]);
    rmSync(folder, { recursive: true });
  });

  it('of early versions has no ground truth, and is recognised by its step', () => {
    const row = { input: 'user\nTwo and two?\nassistant\n', output: 'Four.', score: 1, step: 3, acc: true };
    expect(known(row)).toBe('verl');
    const { of, refusals } = read('verl', row);
    expect(refusals).toEqual([]);
    expect(of('task.defined')[0]).not.toHaveProperty('ground_truth');
    expect(of('generation.completed')).toMatchObject([{ model_version: '3' }]);
    expect(of('feedback.recorded').map(({ kind, value }) => [kind, value])).toEqual([
      ['reward', 1],
      ['score', true],
    ]);
  });

  it('is an episode a row, those of one prompt and step a group, with the score as reward', async () => {
    const { report, of } = await imported('verl/rollouts.jsonl');
    expect(report).toMatchObject({
      format: 'verl',
      episodes: 3,
      tasks: 2,
      agents: 1,
      calls: 3,
      feedback: 6,
      errors: [],
    });
    expect(reward(of).map(([, , value]) => value)).toEqual([1, 0, 1]);
    expect(of('feedback.recorded').filter(({ name }) => name === 'acc')).toMatchObject([
      { value: true },
      { value: false },
      { value: true },
    ]);
    const started = of('episode.started');
    expect(new Set(started.map(({ group_id }) => group_id)).size).toBe(2);
    expect(started[0]).toMatchObject({ tags: { step: 7 }, flags: ['no_token_ids', 'decoded_prompt'] });
    expect(started[0]!.unmapped).toEqual({ pred: '5' });
    expect(of('task.defined')).toMatchObject([{ ground_truth: '5' }, { ground_truth: '8' }]);
    expect(of('generation.completed')[0]).toMatchObject({ model_version: '7', choices: [{ content: 'It is 5.' }] });
  });

  it('whose outputs are named by rollout is an episode a rollout, with the score of its last output', async () => {
    const { report, of } = await imported('verl/sessions.jsonl');
    expect(report).toMatchObject({ format: 'verl', episodes: 3, tasks: 2, calls: 4, errors: [] });
    const uid = '0b7c1f1e-0000-4000-8000-0000000000';
    expect(of('episode.started').map(({ episode_id, group_id }) => [episode_id, group_id])).toEqual([
      [`${uid}01_0`, `${uid}01`],
      [`${uid}01_1`, `${uid}01`],
      [`${uid}02_0`, `${uid}02`],
    ]);
    expect(reward(of)).toEqual([
      ['episode', `${uid}01_0`, 1],
      ['episode', `${uid}01_1`, 1],
    ]);
    expect(of('episode.started').map(({ flags }) => (flags as string[]).includes('unsegmented'))).toEqual([
      false,
      true,
      false,
    ]);
    expect(of('episode.started')[2]!.unmapped).toEqual({ score: 'NaN' });
  });

  it('is the same with the outputs of a rollout in several files, in any order', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-verl-'));
    const rows = readFileSync(path('verl/sessions.jsonl'), 'utf8').trim().split('\n');
    for (const [i, row] of rows.toReversed().entries()) writeFileSync(join(folder, `${i}.jsonl`), row);
    const memory = memoryLog();
    await importFiles([path('verl/sessions.jsonl')], memory);
    const again = await importFiles([folder], memory);
    rmSync(folder, { recursive: true });
    expect(again).toMatchObject({ episodes: 3, calls: 4, events: { accepted: 0, rejected: 0 } });
  });

  it('keeps the rows beside one that is none', () => {
    const [row] = lines('verl/rollouts.jsonl');
    expect(read('verl', { ...row, output: 3 }).refused).toEqual(['bad_type output']);
    const rows = lines('verl/sessions.jsonl');
    const { refused, of } = read('verl', [rows[0], { ...rows[1], input: null }, 7, rows[3]]);
    expect(refused).toEqual(['bad_type input', 'bad_shape ']);
    expect(of('episode.started')).toHaveLength(2);
  });
});

describe('A row of results that verifiers wrote before its traces', () => {
  const call = { id: 'c1', type: 'function', function: { name: 'calc', arguments: '{"x":1}' } };
  const row = {
    ...{ example_id: 0, task: 'math', answer: '4', reward: 0.5, error: null, info: { level: 1 } },
    prompt: [
      { role: 'system', content: 'You count.' },
      { role: 'user', content: 'Two and two?' },
    ],
    completion: [
      { role: 'assistant', content: '', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c1', content: '4' },
      { role: 'assistant', content: 'Four.' },
    ],
    ...{ metrics: { reward: 0.5, correct: 1 }, stop_condition: 'done', token_usage: { input_tokens: 9 } },
  };

  it('keeps the ground truth of a prompt without a text, which is no task', () => {
    const empty = {
      id: 0,
      prompt: [{ role: 'user', content: '' }],
      completion: [],
      task: 'default',
      reward: 1,
      answer: 'C',
    };
    const { of } = read('prime-rl', empty);
    expect(of('task.defined')).toEqual([]);
    expect(of('episode.started')[0]!.unmapped).toMatchObject({ answer: 'C' });
  });

  it('is an episode: its answers are calls with what was before them, its reward and metrics are feedback', () => {
    expect(known(row)).toBe('prime-rl');
    const { of } = read('prime-rl', row);
    expect(of('task.defined')).toMatchObject([{ task_id: 'math/0', query: 'Two and two?', ground_truth: '4' }]);
    expect(of('generation.requested').map(({ input }) => (input as Data[]).length)).toEqual([2, 4]);
    expect(of('tool.returned')).toMatchObject([{ output: '4', tool_call_id: of('tool.called')[0]!.tool_call_id }]);
    expect(of('feedback.recorded').map(({ kind, name, value }) => [kind, name, value])).toEqual([
      ['reward', 'reward', 0.5],
      ['score', 'correct', 1],
    ]);
    expect(of('episode.finished')).toMatchObject([{ stop_reason: 'done', totals: { input_tokens: 9 } }]);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids'], unmapped: { info: { level: 1 } } }]);
  });

  it('of 2025 has its calls as text, its results without an id, its metrics as columns, and its task by what was asked', () => {
    const early = {
      ...{ id: 0, task: 'default', answer: '4', reward: 0.5, sum_is_right: 1, scoring_ms: 12, prompt: row.prompt },
      completion: [
        { ...row.completion[0], tool_calls: [call, { ...call, id: 'c2' }].map((one) => JSON.stringify(one)) },
        { role: 'tool', content: '4', tool_calls: null },
        { role: 'tool', content: '5', tool_calls: null },
        row.completion[2],
      ],
    };
    expect(known(early)).toBe('prime-rl');
    const { of, refusals } = read('prime-rl', early);
    expect(refusals).toEqual([]);
    expect(of('task.defined')[0]!.task_id).toMatch(/^text\//);
    expect(of('tool.called').map(({ name }) => name)).toEqual(['calc', 'calc']);
    const ids = of('tool.called').map(({ tool_call_id: id }) => id);
    expect(of('tool.returned').map(({ tool_call_id: id, output }) => [id, output])).toEqual([
      [ids[0], '4'],
      [ids[1], '5'],
    ]);
    expect(of('feedback.recorded').map(({ kind, name, value }) => [kind, name, value])).toEqual([
      ['reward', 'reward', 0.5],
      ['score', 'sum_is_right', 1],
    ]);
  });

  it('that failed has no reward, though 0 stands there; texts are messages; what is none is refused by its field', () => {
    const failed = read('prime-rl', { ...row, completion: null, reward: 0, error: { error: 'Timeout' } });
    expect(failed.of('feedback.recorded')).toEqual([]);
    expect(failed.of('episode.finished')).toMatchObject([{ outcome: 'error' }]);
    expect(failed.of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
    const { of } = read('prime-rl', { ...row, task: undefined, prompt: 'Two?', completion: 'Four.' });
    expect(of('task.defined')[0]!.task_id).toMatch(/^text\//);
    expect(of('generation.completed')).toMatchObject([{ choices: [{ content: 'Four.' }] }]);
    expect(read('prime-rl', { ...row, completion: [{ role: 'assistant' }, 1] }).refused).toEqual([
      'bad_type completion[1]',
    ]);
    expect(read('prime-rl', { ...row, reward: 'high' }).refused).toEqual(['bad_type reward']);
  });
});

describe('Rollouts of prime-rl', () => {
  it('are episodes: calls as billed, tools with results, tokens and log-probabilities as sampled', async () => {
    const { report, of } = await imported('prime-rl/episodes.jsonl');
    expect(report).toMatchObject({
      ...{ format: 'prime-rl', episodes: 2, tasks: 1, agents: 2, calls: 5, steps: 4, tool_calls: 2, errors: [] },
    });
    const [first, second, judge, third, failed] = of('generation.completed');
    expect(first).toMatchObject({
      usage: { input_tokens: 13, output_tokens: 3, cached_input_tokens: 2 },
      prompt_token_ids: [1, 2, 3, 4, 5],
      choices: [{ token_ids: [11, 12, 13], logprobs: [-0.25, -0.5, -0.75], finish_reason: 'tool_calls' }],
      model_version: '3',
      agent_id: 'solver',
    });
    expect(second).toMatchObject({
      usage: { input_tokens: 14, output_tokens: 6 },
      prompt_token_ids: [1, 2, 3, 4, 5, 11, 12, 13, 6, 7, 8],
      choices: [{ token_ids: [21, 22], logprobs: [-0.25, -0.5] }],
    });
    expect(judge).toMatchObject({ agent_id: 'judge', response_model: 'm2', usage: { output_tokens: 9 } });
    expect(judge).not.toHaveProperty('prompt_token_ids');
    expect(third).toMatchObject({ choices: [{ token_ids: [31, 32] }] });
    expect(third).not.toHaveProperty('model_version');
    expect(failed).toMatchObject({ choices: [], error: { status_code: 503 } });
    expect(of('tool.called').map(({ name, arguments: args }) => [name, args])).toEqual([
      ['add', { a: 2, b: 3 }],
      ['add', { a: 3, b: 2 }],
    ]);
    expect(of('tool.returned').map(({ tool_call_id, output }) => [tool_call_id, output])).toEqual(
      of('tool.called').map(({ tool_call_id }) => [tool_call_id, '5']),
    );
    expect(of('generation.requested')[1]!.input).toMatchObject([
      { role: 'system' },
      { role: 'user' },
      { role: 'assistant' },
      { role: 'tool', tool_call_id: 'c1' },
      { role: 'tool', tool_call_id: 'c2' },
    ]);
    expect(of('episode.started')).toMatchObject([
      { episode_id: 'e1'.repeat(16), task_id: 'sums/sum-3', group_id: 'g1', session_id: 'run-1' },
      { episode_id: 'e2'.repeat(16), task_id: 'sums/sum-3', group_id: 'g1', session_id: 'run-1' },
    ]);
    expect(of('task.defined')).toMatchObject([{ query: 'What is 2 + 3?', ground_truth: '5' }]);
  });

  it('are judged by the weighted sum of their rewards, on the episode where one agent played', async () => {
    const { of } = await imported('prime-rl/episodes.jsonl');
    expect(reward(of)).toEqual([
      ['agent', 'solver', 1.1],
      ['agent', 'solver', 0],
      ['episode', 'e2'.repeat(16), 0],
    ]);
    const trace = await imported('prime-rl/trace.jsonl');
    expect(trace.report).toMatchObject({ format: 'prime-rl', episodes: 1, calls: 2, tool_calls: 2 });
    expect(reward(trace.of)).toContainEqual(['episode', 't1'.repeat(16), 1.1]);
  });

  it('without rewards have none, and a node that is no message is refused alone', () => {
    const [trace] = lines('prime-rl/trace.jsonl') as [Data & { nodes: Data[] }];
    const { of } = read('prime-rl', { ...trace, rewards: { correct: null } });
    expect(of('feedback.recorded').filter(({ kind }) => kind === 'reward')).toEqual([]);
    const broken = read('prime-rl', {
      ...trace,
      nodes: trace.nodes.map((node, i) => (i === 1 ? { message: 3 } : node)),
    });
    expect(broken.refused).toEqual(['bad_type nodes[1].message[0]']);
    expect(broken.of('generation.completed')).toHaveLength(2);
    expect(broken.of('generation.completed')[0]).not.toHaveProperty('prompt_token_ids');
    expect(broken.of('episode.started')).toMatchObject([{ flags: ['incomplete'] }]);
  });

  it('whose log-probabilities are not one a token keep them aside, flagged', () => {
    const [trace] = lines('prime-rl/trace.jsonl') as [Data & { nodes: Data[] }];
    const nodes = trace.nodes.map((node, i) => (i === 5 ? { ...node, logprobs: [-1] } : node));
    const [, second] = read('prime-rl', { ...trace, nodes }).of('generation.completed');
    expect(second).toMatchObject({ flags: ['logprobs_mismatch'], unmapped: { logprobs: [-1] } });
    expect((second!.choices as Data[])[0]).not.toHaveProperty('logprobs');
  });
});

describe('Episodes of rLLM', () => {
  it('are agents by trajectory, calls with their tokens, tools with results, rewards where they were given', async () => {
    const { report, of } = await imported('rllm/episodes.jsonl');
    expect(report).toMatchObject({
      ...{ format: 'rllm', episodes: 1, tasks: 1, agents: 2, calls: 3, tool_calls: 1, errors: [] },
    });
    expect(of('generation.completed')).toMatchObject([
      {
        agent_id: 'solver',
        usage: { input_tokens: 4, output_tokens: 3 },
        prompt_token_ids: [1, 2, 3, 4],
        model_version: '3',
        choices: [{ token_ids: [11, 12, 13], logprobs: [-0.5, -1, -1.5], finish_reason: 'stop' }],
      },
      { agent_id: 'solver', usage: { input_tokens: 9, output_tokens: 2 }, choices: [{ token_ids: [21, 22] }] },
      { agent_id: 'judge', usage: { input_tokens: 2, output_tokens: 1 }, choices: [{ token_ids: [31] }] },
    ]);
    expect(of('tool.called')).toMatchObject([{ name: 'add', arguments: { a: 2, b: 3 } }]);
    expect(of('tool.returned')).toMatchObject([{ output: '5', tool_call_id: of('tool.called')[0]!.tool_call_id }]);
    expect(reward(of)).toEqual([
      ['step', 'solver/0/0', 0],
      ['step', 'solver/1/0', 1],
      ['agent', 'solver', 1],
      ['agent', 'judge', 0.5],
    ]);
    expect(of('episode.started')).toMatchObject([{ task_id: 'sums-a1', session_id: 's1', attempt: 2, flags: [] }]);
    expect(of('episode.finished')).toMatchObject([{ outcome: 'success', stop_reason: 'env_done' }]);
  });

  it('of a log without tokens and of an evaluation are read too', async () => {
    const { report, of } = await imported('rllm/logged.jsonl');
    expect(report).toMatchObject({ format: 'rllm', episodes: 2, tasks: 2, calls: 3, errors: [] });
    expect(of('episode.started')).toMatchObject([
      { flags: ['no_token_ids'], task_id: expect.stringMatching(/^text\//) },
      { flags: ['no_token_ids'], task_id: 'sums-b1' },
    ]);
    expect(of('generation.completed').map(({ choices }) => (choices as Data[])[0]!.content)).toEqual(['9', '2', '2']);
    expect(of('episode.finished').map(({ outcome }) => outcome)).toEqual(['failure', 'success']);
    expect(of('feedback.recorded').filter(({ name }) => name === 'fast')).toMatchObject([{ value: 0.75 }]);
  });

  it('keep the steps beside one that is none', () => {
    const [episode] = lines('rllm/episodes.jsonl') as [Data & { trajectories: (Data & { steps: unknown[] })[] }];
    const [solver, judge] = episode.trajectories as [Data & { steps: unknown[] }, Data];
    const steps = [{ chat_completions: [{ role: 'poet' }] }, ...solver.steps.slice(1)];
    const { refused, of } = read('rllm', { ...episode, trajectories: [{ ...solver, steps }, judge, 5] });
    expect(refused).toEqual([
      'bad_shape trajectories[2]',
      'bad_type trajectories[0].steps[0].chat_completions[0].role',
    ]);
    expect(of('generation.completed')).toHaveLength(2);
    expect(of('episode.started')).toMatchObject([{ flags: ['incomplete'] }]);
  });
});

describe('A record of reinforcement learning', () => {
  it('is recognised without a name', () => {
    expect(known(lines('verl/rollouts.jsonl')[0])).toBe('verl');
    expect(known(lines('prime-rl/episodes.jsonl')[0])).toBe('prime-rl');
    expect(known(lines('prime-rl/trace.jsonl')[0])).toBe('prime-rl');
    expect(known(lines('rllm/episodes.jsonl')[0])).toBe('rllm');
    expect(known((lines('rllm/episodes.jsonl')[0]!.trajectories as unknown[])[0])).toBe('rllm');
    expect(known({ input: 'a', output: 'b' })).toBe(null);
  });
});
