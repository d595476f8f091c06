/** Rows as Langfuse exports them: pages of its API, the export of its pages, and files in blob storage. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { memoryLog } from '../support/memory-log.ts';
import { tablesOf } from '../support/tables.ts';
import { known, read } from './support/convert.ts';

const OBSERVATION = {
  id: 'o1',
  traceId: 'T',
  type: 'GENERATION',
  name: 'answer',
  startTime: '2026-09-10T10:00:00.000Z',
  endTime: '2026-09-10T10:00:01.000Z',
  model: 'm',
  modelParameters: { temperature: 0 },
  input: [{ role: 'user', content: 'How far?' }],
  output: { role: 'assistant', content: '12 km' },
  usageDetails: { input: 3, output: 2, total: 5 },
  level: 'DEFAULT',
  statusMessage: null,
  parentObservationId: null,
};
const BLOB = {
  id: 'o1',
  trace_id: 'T',
  type: 'GENERATION',
  name: 'answer',
  start_time: '2026-09-10 10:00:00.000',
  end_time: '2026-09-10 10:00:01.000',
  provided_model_name: 'm',
  model_parameters: '{"temperature":0}',
  input: '[{"role":"user","content":"How far?"}]',
  output: '{"role":"assistant","content":"12 km"}',
  usage_details: { input: 3, output: 2, total: 5 },
  level: 'DEFAULT',
  status_message: null,
  parent_observation_id: null,
};
const TRACE = {
  id: 'T',
  timestamp: '2026-09-10 10:00:00.000',
  name: 'run',
  session_id: 'S',
  user_id: null,
  tags: [],
  input: 'How far?',
  output: '12 km',
  metadata: { task_id: 'T1' },
};
const score = (id: string, more: object) => ({
  id,
  timestamp: '2026-09-10 10:00:05.000',
  trace_id: 'T',
  observation_id: null,
  name: 'correct',
  source: 'API',
  data_type: 'NUMERIC',
  value: 1,
  string_value: null,
  ...more,
});
const of = (rows: readonly unknown[]) => read('langfuse', [rows]).of;

describe('Rows that Langfuse exports', () => {
  it('of observations are calls of their trace, in snake case and camel case alike', () => {
    for (const row of [OBSERVATION, BLOB]) {
      expect(of([row])('generation.completed')).toMatchObject([
        {
          episode_id: 'T',
          call_id: 'o1',
          usage: { input_tokens: 3, output_tokens: 2 },
          choices: [{ content: '12 km' }],
        },
      ]);
      expect(of([row])('generation.requested')).toMatchObject([
        { model: 'm', input: [{ role: 'user', content: 'How far?' }], params: { temperature: 0 } },
      ]);
      expect(of([row])('episode.started')).toMatchObject([{ episode_id: 'T', flags: ['no_token_ids'] }]);
    }
  });

  it('of traces and scores meet them, in files of their own and any order', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'troupe-langfuse-'));
    const rows = [score('s1', {}), TRACE, BLOB];
    for (const [i, row] of rows.entries()) writeFileSync(join(folder, `${i}.jsonl`), JSON.stringify(row));
    const memory = memoryLog();
    expect(await importFiles([folder], memory)).toMatchObject({
      episodes: 1,
      tasks: 1,
      calls: 1,
      feedback: 1,
      errors: [],
    });
    writeFileSync(join(folder, '9.json'), JSON.stringify({ data: rows.toReversed(), meta: { page: 1 } }, null, 2));
    const again = await importFiles([join(folder, '9.json')], memory);
    rmSync(folder, { recursive: true });
    expect(again.events).toMatchObject({ accepted: 0, rejected: 0 });
    expect(of(rows)('episode.started')).toMatchObject([{ task_id: 'T1', session_id: 'S' }]);
    expect(of(rows)('feedback.recorded')).toMatchObject([{ kind: 'score', value: 1 }]);
  });

  it('of whole traces on a page bring their observations, as each does in a file of its own', () => {
    const whole = { ...TRACE, sessionId: 'S', observations: [OBSERVATION], scores: [] };
    const page = of([{ data: [whole], meta: { page: 1 } }]);
    const alone = of([whole]);
    for (const name of ['generation.completed', 'episode.started', 'episode.finished'] as const)
      expect(page(name)).toEqual(alone(name));
    expect(page('generation.completed')).toHaveLength(1);
    expect(page('episode.started')[0]!.flags).toEqual(['no_token_ids']);
  });

  it('of traces that name observations which are not there are incomplete, until these come', async () => {
    const list = { data: [{ ...TRACE, sessionId: 'S', observations: ['o1'], scores: ['s1'] }], meta: { page: 1 } };
    expect(of([list])('episode.started')[0]!.flags).toEqual(['no_token_ids', 'incomplete']);
    expect(of([list, OBSERVATION])('episode.started')[0]!.flags).toEqual(['no_token_ids']);
    const folder = mkdtempSync(join(tmpdir(), 'troupe-langfuse-'));
    const memory = memoryLog();
    for (const [i, row] of [list, OBSERVATION].entries()) {
      writeFileSync(join(folder, `${i}.json`), JSON.stringify(row));
      await importFiles([join(folder, `${i}.json`)], memory);
    }
    rmSync(folder, { recursive: true });
    const shown = tablesOf(memory.events).join('\n');
    expect(shown).toContain('"flags":["no_token_ids"]');
    expect(shown).not.toContain('incomplete');
  });

  it('of categories are labels, and a text that a model wrote stays text', () => {
    const label = score('s2', { data_type: 'CATEGORICAL', value: null, string_value: 'good' });
    expect(of([BLOB, label])('feedback.recorded')).toMatchObject([{ kind: 'label', value: 'good' }]);
    const structured = { ...BLOB, output: '{"answer": 12}' };
    expect(of([structured])('generation.completed')).toMatchObject([{ choices: [{ content: '{"answer": 12}' }] }]);
  });

  it('has all tokens that were billed where Langfuse counts parts of them beside the rest, unless the total says otherwise', () => {
    // What Langfuse for Python 5.0.4 makes of 12 tokens in, 4 of them from a cache, and 6 out, 2 of them of reasoning.
    const parts = { input: 8, output: 4, input_cache_read: 4, output_reasoning: 2 };
    const billed = (usageDetails: object) =>
      of([{ ...OBSERVATION, usageDetails }])('generation.completed')[0]!.usage as Record<string, number>;
    expect(billed({ ...parts, total: 18 })).toMatchObject({
      input_tokens: 12,
      output_tokens: 6,
      cached_input_tokens: 4,
    });
    expect(billed({ ...parts, total: 12 })).toMatchObject({ input_tokens: 8, output_tokens: 4 });
  });

  it('that cannot be read are refused by field, the others are kept', () => {
    const { refused, of: eventsNamed } = read('langfuse', [[{ ...BLOB, id: 'o2', end_time: 'soon' }, 7, OBSERVATION]]);
    expect(refused).toContain('bad_time endTime');
    expect(refused).toContain('bad_shape ');
    expect(eventsNamed('generation.completed')).toHaveLength(1);
  });

  it('are known by their content', () => {
    for (const row of [OBSERVATION, BLOB, TRACE, score('s', {}), { data: [OBSERVATION], meta: {} }])
      expect(known(row)).toBe('langfuse');
    expect(known({ id: 'x', type: 'message', timestamp: 'now' })).toBe(null);
  });
});

describe('A run that LangSmith exports', () => {
  it('says the same where a table of a bulk export holds its objects as texts', () => {
    const run = {
      id: 'r',
      trace_id: 'r',
      name: 'model',
      run_type: 'llm',
      start_time: '2026-09-10T10:00:00',
      end_time: '2026-09-10T10:00:01',
      inputs: { messages: [{ role: 'user', content: 'How far?' }] },
      outputs: { choices: [{ message: { role: 'assistant', content: '12 km' } }] },
      extra: { metadata: { langgraph_node: 'guide' } },
    };
    const texts = Object.fromEntries(
      Object.entries(run).map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
    );
    const [plain, row] = [read('langsmith', [[run]]), read('langsmith', [[texts]])];
    for (const name of ['generation.requested', 'generation.completed', 'task.defined'] as const)
      expect(row.of(name)).toEqual(plain.of(name));
    expect(row.of('generation.completed')).toMatchObject([{ agent_id: 'guide', choices: [{ content: '12 km' }] }]);
  });

  it('has the tokens that the server counted where its outputs say none', () => {
    const run = { id: 'r', trace_id: 'r', run_type: 'llm', start_time: '2026-09-10T10:00:00', inputs: {}, outputs: {} };
    const usage = (more: object) =>
      read('langsmith', [[{ ...run, end_time: '2026-09-10T10:00:01', ...more }]]).of('generation.completed')[0]!.usage;
    expect(usage({ prompt_tokens: 3, completion_tokens: 2 })).toEqual({ input_tokens: 3, output_tokens: 2 });
    expect(usage({ prompt_tokens: 0, completion_tokens: 0 })).toBeUndefined();
    const outputs = { usage_metadata: { input_tokens: 9, output_tokens: 1 } };
    expect(usage({ prompt_tokens: 3, completion_tokens: 2, outputs })).toEqual(outputs.usage_metadata);
  });
});
