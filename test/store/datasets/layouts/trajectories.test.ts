/** Layouts of trajectories: the expected documents are written by hand from the schemas of their authors. */
import { describe, expect, it } from 'vitest';
import { adp } from '../../../../store/datasets/layouts/adp.ts';
import { atif } from '../../../../store/datasets/layouts/atif.ts';
import { read } from '../../../ingest/formats/support/convert.ts';
import { ASKED, CALL, laidOut, row, WEATHER, weatherRows } from './rows.ts';

const stepIds = (of: ReturnType<typeof laidOut>) => of.turns.map(({ step_id }) => step_id);

describe('ATIF', () => {
  it('holds a conversation with its calls, results, reasoning, tokens and rewards', () => {
    const [first, second] = weatherRows() as [object, object];
    const tokens = { prompt_token_ids: [1, 2], token_ids: [3], logprobs: [-0.5] };
    const of = laidOut(atif, [first, { ...second, ...tokens, reward: 1, task_id: 'rain' }] as never);
    const [one, two] = stepIds(of);
    expect(of.rows).toEqual([
      {
        schema_version: 'ATIF-v1.8',
        session_id: 'e',
        trajectory_id: `e/${one}`,
        agent: { name: 'guide', version: 'unknown', tool_definitions: [WEATHER] },
        steps: [
          { step_id: 1, source: 'system', message: 'Be brief.' },
          { step_id: 2, source: 'user', message: 'Rain in Oslo?' },
          {
            step_id: 3,
            source: 'agent',
            message: '',
            reasoning_content: 'Ask the tool.',
            tool_calls: [{ tool_call_id: 'call_1', function_name: 'weather', arguments: { city: 'Oslo' } }],
            metrics: { extra: { step_id: one } },
            observation: { results: [{ source_call_id: 'call_1', content: 'rain' }] },
          },
          {
            step_id: 4,
            source: 'agent',
            message: 'Yes.',
            metrics: {
              prompt_token_ids: [1, 2],
              completion_token_ids: [3],
              logprobs: [-0.5],
              extra: { step_id: two, reward: 1 },
            },
          },
        ],
        extra: { task_id: 'rain', role: 'guide' },
      },
    ]);
    expect(of.leftOut).toEqual([]);
  });

  it('is read again by our reader, which marks answers that are no rows as copied', () => {
    const { rows } = laidOut(atif, weatherRows().slice(1));
    const { drafts, refused } = read('atif', rows[0]);
    expect(refused).toEqual([]);
    const copied = drafts.filter(({ data }) => (data.flags as string[] | undefined)?.includes('copied_context'));
    expect(copied).toHaveLength(1);
    expect(drafts.filter(({ name }) => name === 'generation.completed')).toHaveLength(1);
  });

  it('keeps arguments that are no object as text, and leaves out a result before any answer', () => {
    const odd = { ...CALL, arguments: 'Oslo' };
    const lost = [...ASKED, { role: 'tool', content: 'rain', tool_call_id: 'x' }];
    const of = laidOut(atif, [row({ prompt: ASKED, content: [odd] }), row({ prompt: lost, text: 'Yes.', agent: 'b' })]);
    expect(of.rows).toHaveLength(1);
    expect(of.rows[0].steps[2].tool_calls).toEqual([
      { tool_call_id: 'call_1', function_name: 'weather', arguments: {}, extra: { arguments: 'Oslo' } },
    ]);
    expect(of.leftOut).toEqual([{ what: 'a result of a tool follows no answer', count: 1 }]);
  });
});

describe('the Agent Data Protocol', () => {
  it('holds a conversation as actions and observations, each call with its one result', () => {
    const [first, second] = weatherRows() as [object, object];
    const of = laidOut(adp, [first, { ...second, reward: 1, ground_truth: '"rain"' }] as never);
    const ids = stepIds(of);
    expect(of.rows).toEqual([
      {
        schema_version: '1.5.0',
        id: `e/${ids[0]}`,
        content: [
          { class_: 'text_observation', content: 'Rain in Oslo?', source: 'user' },
          {
            class_: 'api_action',
            function: 'weather',
            kwargs: { city: 'Oslo' },
            reasoning_content: 'Ask the tool.',
            tool_call_id: 'call_1',
          },
          { class_: 'text_observation', content: 'rain', source: 'environment', tool_call_id: 'call_1' },
          { class_: 'message_action', content: 'Yes.', reward: 1 },
        ],
        details: {
          dataset: 'test',
          episode_id: 'e',
          task_id: null,
          group_id: null,
          agent: 'guide',
          role: 'guide',
          ground_truth: 'rain',
          system: ['Be brief.'],
          step_ids: ids,
        },
      },
    ]);
  });

  it('describes the first of several calls by the text beside them, and gives ids that repeat another name', () => {
    const both = [{ type: 'text', content: 'I ask twice.' }, CALL, CALL];
    const prompt = [
      ...ASKED,
      { role: 'assistant', content: both },
      { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
      { role: 'tool', content: 'sun', tool_call_id: 'call_1' },
    ];
    const { rows, notHeld } = laidOut(adp, [row({ prompt, text: 'Both.' })]);
    const calls = rows[0].content.filter(({ class_ }: { class_: string }) => class_ === 'api_action');
    expect(calls.map(({ description }: { description?: string }) => description)).toEqual(['I ask twice.', undefined]);
    const named = rows[0].content.flatMap(({ tool_call_id: id }: { tool_call_id?: string }) => (id ? [id] : []));
    expect(named).toEqual(['call_1', 'call_1/2', 'call_1', 'call_1/2']);
    expect(notHeld).toEqual([
      { what: 'answers that are no rows of the dataset, which this layout has learnt too', count: 1 },
    ]);
  });

  it('leaves out what it has no place for, each with its reason', () => {
    const asked = (...more: object[]) => [...ASKED, ...more];
    const call = { role: 'assistant', content: [CALL] };
    const two = { role: 'assistant', content: [CALL, { ...CALL, id: 'call_2' }] };
    const result = { role: 'tool', content: 'rain', tool_call_id: 'call_1' };
    const { rows, leftOut } = laidOut(adp, [
      row({ agent: 'a', prompt: ASKED, content: [CALL] }),
      row({ agent: 'b', prompt: asked(call), text: 'Yes.' }),
      row({ agent: 'c', prompt: asked(result), text: 'Yes.' }),
      row({ agent: 'd', prompt: ASKED, content: [{ ...CALL, arguments: 'Oslo' }] }),
      row({ agent: 'f', prompt: asked(two, result), text: 'Yes.' }),
    ]);
    expect(rows).toHaveLength(1);
    expect(leftOut).toEqual([
      { what: 'a call of a tool has no result before the next message', count: 2 },
      { what: 'a result of a tool answers no call before it', count: 1 },
      { what: 'the arguments of a call are no JSON object', count: 1 },
    ]);
  });
});
