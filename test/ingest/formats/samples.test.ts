/** Small published-shape files of every foreign format, read from the folder that TROUPE_DATA names, against the counts beside them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { exportEpisodes } from '../../../ingest/files/export.ts';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';

const root = process.env.TROUPE_DATA ?? '';
const expected: Record<string, Expected> = root
  ? JSON.parse(readFileSync(join(root, 'samples/expected.json'), 'utf8')).formats
  : {};
type Expected = {
  readonly files: readonly string[];
  readonly tasks: number;
  readonly trajectories: number;
  readonly agents: number;
  readonly steps: number;
  readonly tool_calls: number;
  readonly scores?: number;
  readonly labels?: number;
};

const NAMES = [
  'agentscope',
  'agentverse',
  'atif',
  'autogen',
  'crewai',
  'm500',
  'mas-gpt',
  'mast',
  'multiagentbench',
  'redel',
  'sharegpt',
  'swe-agent',
  'swe-bench',
  'swe-dev',
  'xlam',
];

const paths = (name: string, files: readonly string[]) => files.map((file) => join(root, 'samples', name, file));
const digest = (memory: ReturnType<typeof memoryLog>): string[] =>
  memory.events.map((event) => `${event.key} ${event.id} ${event.digest}`).sort();

describe.skipIf(!root).each(NAMES)('the files of %s (TROUPE_DATA names their folder)', (name) => {
  const { files, tasks, trajectories, agents, steps, tool_calls, scores, labels } = (expected[name] ?? {}) as Expected;

  it('hold what stands beside them', async () => {
    const report = await importFiles(paths(name, files), memoryLog());
    expect(report).toMatchObject({ format: name, tasks, episodes: trajectories, agents, calls: steps, tool_calls });
    expect([report.feedback, report.errors]).toEqual([labels ?? scores, []]);
  });

  it('say the same in any order, and nothing new the second time', async () => {
    const memory = memoryLog();
    await importFiles(paths(name, files), memory);
    const other = memoryLog();
    await importFiles(paths(name, files).toReversed(), other);
    expect(digest(other)).toEqual(digest(memory));
    const again = await importFiles(paths(name, files), memory);
    expect(again.events).toMatchObject({ accepted: 0, rejected: 0 });
  });
});

describe.skipIf(!root)('a bad file is refused by field, and the good records in it are kept', () => {
  type Wrong = [line: number, field: string, code: string];
  const cases: [name: string, file: string, wrong: Wrong[], episodes: number, calls: number][] = [
    [
      'atif',
      'bad-steps.json',
      [
        [1, 'steps[0].model_name', 'bad_shape'],
        [1, 'steps[0].tool_calls', 'bad_shape'],
        [1, 'steps[1].step_id', 'bad_shape'],
      ],
      0,
      0,
    ],
    [
      'atif',
      'bad-call.json',
      [[1, 'subagent_trajectories[0].steps[1].observation.results[0].source_call_id', 'bad_reference']],
      0,
      0,
    ],
    [
      'sharegpt',
      'bad-conversations.json',
      [
        [2, 'conversations[0].from', 'bad_shape'],
        [14, 'conversations[0].from', 'bad_type'],
        [22, 'conversations', 'bad_type'],
      ],
      0,
      0,
    ],
    [
      'm500',
      'bad-rows.jsonl',
      [
        [1, 'critic_messages', 'bad_type'],
        [2, 'question', 'bad_type'],
      ],
      0,
      0,
    ],
    [
      'mas-gpt',
      'bad-gen.json',
      [
        [2, 'extract_flag', 'bad_type'],
        [13, 'query', 'bad_type'],
      ],
      0,
      0,
    ],
    [
      'agentverse',
      'bad-results.jsonl',
      [
        [2, 'logs', 'bad_type'],
        [3, '', 'bad_json'],
      ],
      1,
      4,
    ],
    [
      'autogen',
      'bad-message.json',
      [
        [1, 'messages[1].type', 'bad_type'],
        [1, 'messages[2].source', 'bad_type'],
      ],
      1,
      3,
    ],
    [
      'agentscope',
      'bad-roles.jsonl',
      [
        [2, 'role', 'bad_type'],
        [3, 'content[0].id', 'bad_type'],
      ],
      1,
      2,
    ],
    [
      'crewai',
      'bad-events.json',
      [
        [1, 'events[5].type', 'bad_type'],
        [1, 'events[6].event_data', 'bad_type'],
      ],
      1,
      4,
    ],
    [
      'multiagentbench',
      'bad-results.jsonl',
      [
        [1, 'iterations', 'bad_type'],
        [2, 'iterations[0].task_results[0]', 'bad_type'],
      ],
      0,
      0,
    ],
    [
      'mast',
      'bad-mad.json',
      [
        [2, 'mast_annotation.1.1', 'bad_type'],
        [16, 'trace', 'bad_type'],
      ],
      0,
      0,
    ],
    ['redel', 'bad-session', [[4, 'msg', 'bad_type']], 1, 4],
    [
      'swe-agent',
      'bad-step.json',
      [
        [1, 'trajectory[1].action', 'bad_type'],
        [1, 'info', 'bad_type'],
      ],
      0,
      0,
    ],
    ['swe-agent', 'bad-cut.json', [[1, '', 'bad_json']], 0, 0],
    [
      'swe-bench',
      'bad-predictions.jsonl',
      [
        [1, 'instance_id', 'bad_type'],
        [2, 'model_patch', 'bad_type'],
      ],
      0,
      0,
    ],
    [
      'swe-dev',
      'bad-infer.jsonl',
      [
        [1, 'query', 'bad_type'],
        [2, 'query', 'bad_type'],
      ],
      0,
      0,
    ],
    ['xlam', 'bad-train.json', [[52, 'unique_trajectory_id', 'bad_type']], 1, 4],
  ];
  it.each(cases)('%s: %s', async (name, file, wrong, episodes, calls) => {
    const memory = memoryLog();
    const report = await importFiles(paths(name, [file]), memory);
    expect(report.errors.map(({ line, field, code }) => [line, field, code])).toEqual(wrong);
    expect([report.episodes, report.calls, report.events.rejected]).toEqual([episodes, calls, wrong.length]);
    expect(memory.letters()).toHaveLength(wrong.length);
  });

  it('a session of ReDel whose state counts other events than its log is flagged', async () => {
    const memory = memoryLog();
    await importFiles(paths('redel', ['bad-session']), memory);
    const started = memory.events.find((event) => event.name === 'episode.started');
    expect((started!.data as { flags: string[] }).flags).toContain('incomplete');
  });
});

describe.skipIf(!root)('other published files (TROUPE_DATA names their folder)', () => {
  it('of SWE-agent: four runs of three problems, 39 steps and as many calls, no matter which version wrote them', async () => {
    const report = await importFiles([join(root, 'data/swe-agent')], memoryLog());
    expect(report).toMatchObject({ format: 'swe-agent', episodes: 4, tasks: 3, calls: 39, tool_calls: 39, errors: [] });
  });

  it('of the other forms of two formats: a log of a crew, and training rows of M500 as chat', async () => {
    const log = await importFiles(paths('crewai', ['output-log.json']), memoryLog());
    expect(log).toMatchObject({ format: 'crewai', tasks: 1, episodes: 1, agents: 1, calls: 1, tool_calls: 0 });
    const rows = await importFiles(paths('m500', ['train-messages.json']), memoryLog());
    expect(rows).toMatchObject({ format: 'openai-chat', episodes: 12, agents: 0 });
  });

  it('of ATIF: native to events to native is equal as JSON', async () => {
    for (const file of expected.atif!.files) {
      const native = JSON.parse(readFileSync(join(root, 'samples/atif', file), 'utf8'));
      const memory = memoryLog();
      await importFiles(paths('atif', [file]), memory);
      const written: unknown[] = [];
      for await (const line of exportEpisodes('atif', [memory.events.filter((event) => event.key.startsWith('e/'))])) {
        written.push(JSON.parse(line));
      }
      expect(written).toEqual([native]);
    }
  });
});
