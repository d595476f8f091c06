/** Trajectories are written by hand from the schema of the protocol, or by the layout `adp` of datasets. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../../ingest/files/import.ts';
import { adp } from '../../../store/datasets/layouts/adp.ts';
import { ASKED, CALL, laidOut, row, weatherRows } from '../../store/datasets/layouts/rows.ts';
import { memoryLog } from '../support/memory-log.ts';
import { type Data, known, type Read, read } from './support/convert.ts';

const NEW = {
  schema_version: '1.5.0',
  id: 'fix-7',
  content: [
    { class_: 'text_observation', content: 'Fix the sum.', source: 'user' },
    {
      class_: 'api_action',
      function: 'open',
      kwargs: { path: 'sum.py' },
      description: 'I look.',
      reasoning_content: 'First look.',
      tool_call_id: 'a',
    },
    { class_: 'api_action', function: 'open', kwargs: { path: 'test.py' }, tool_call_id: 'b' },
    { class_: 'text_observation', content: 'a - b', source: 'environment', tool_call_id: 'b' },
    { class_: 'text_observation', content: 'a + b', source: 'environment', tool_call_id: 'a', reward: 0.5 },
    {
      class_: 'code_action',
      language: 'bash',
      content: 'pytest',
      description: 'I test.',
      tool_call_id: 'c',
      reward: 0.25,
    },
    { class_: 'web_observation', html: null, axtree: '1 passed', url: 'http://ci', tool_call_id: 'c' },
    { class_: 'message_action', content: 'Done.', reward: 1 },
  ],
  available_custom_tools: ['open'],
  details: { instance_id: 'sum-7', split: 'train' },
};

/** Before version 1.4 results had no ids, and those of a user's world came from `user`. */
const OLD = {
  id: '12',
  content: [
    { class_: 'text_observation', content: 'Go north.', source: 'user_msg', name: null },
    { class_: 'api_action', function: 'go', kwargs: { to: 'north' }, description: null },
    { class_: 'text_observation', content: 'A wall.', source: 'user' },
    { class_: 'message_action', content: 'I cannot.', description: 'It is closed.' },
    { class_: 'text_observation', content: 'Try again.', source: 'user' },
    { class_: 'image_observation', content: 'wall.png', source: 'environment' },
  ],
  details: {},
};

const folder = mkdtempSync(join(tmpdir(), 'troupe-adp-'));

async function imported(name: string, ...values: unknown[]) {
  const path = join(folder, name);
  writeFileSync(path, values.map((value) => `${JSON.stringify(value)}\n`).join(''));
  const memory = memoryLog();
  const report = await importFiles([path], memory);
  expect((await importFiles([path], memory)).events).toMatchObject({ accepted: 0 });
  rmSync(path);
  return report;
}

describe('A trajectory of the Agent Data Protocol', () => {
  it('is an episode: answers are calls, parallel actions one of them, observations their results', async () => {
    expect(await imported('new.jsonl', NEW, OLD)).toMatchObject({
      ...{ format: 'adp', episodes: 2, tasks: 2, agents: 1, calls: 5, tool_calls: 4, feedback: 3, errors: [] },
    });
    const { of } = read('adp', NEW);
    expect(of('episode.started')).toMatchObject([
      {
        native: { ids: { id: 'fix-7' } },
        task_id: 'sum-7',
        flags: ['no_token_ids'],
        unmapped: { instance_id: 'sum-7', split: 'train' },
      },
    ]);
    const [first, second, third] = of('generation.completed').map(({ choices }) => (choices as Data[])[0]!.content);
    expect(first).toEqual([
      { type: 'reasoning', content: 'First look.' },
      { type: 'text', content: 'I look.' },
      { type: 'tool_call', id: 'a', name: 'open', arguments: { path: 'sum.py' }, arguments_raw: '{"path": "sum.py"}' },
      {
        type: 'tool_call',
        id: 'b',
        name: 'open',
        arguments: { path: 'test.py' },
        arguments_raw: '{"path": "test.py"}',
      },
    ]);
    expect(second).toMatchObject([
      { content: 'I test.' },
      { name: 'bash', call_type: 'code', arguments: { code: 'pytest' } },
    ]);
    expect(third).toBe('Done.');
    const named = new Map(of('tool.called').map((call) => [call.tool_call_id, call]));
    expect(of('tool.returned').map(({ tool_call_id, output }) => [named.get(tool_call_id)?.arguments, output])).toEqual(
      [
        [{ path: 'test.py' }, 'a - b'],
        [{ path: 'sum.py' }, 'a + b'],
        [
          { code: 'pytest' },
          [
            { type: 'text', content: '1 passed' },
            { type: 'web_observation', html: null, url: 'http://ci' },
          ],
        ],
      ],
    );
    const steps = of('generation.completed').map(({ call_id }) => `${call_id}/0`);
    expect(
      of('feedback.recorded').map(({ target, value }) => [steps.indexOf((target as Data).id as string), value]),
    ).toEqual([
      [0, 0.5],
      [1, 0.25],
      [2, 1],
    ]);
    expect(of('agent.defined')).toMatchObject([{ agent_id: 'agent', tools: ['open'] }]);
  });

  it('of an early version pairs the observation after an action with it', () => {
    const { of } = read('adp', OLD);
    expect(of('tool.called')).toMatchObject([{ name: 'go', arguments: { to: 'north' } }]);
    expect(of('tool.returned')).toMatchObject([
      { output: 'A wall.', tool_call_id: of('tool.called')[0]!.tool_call_id },
    ]);
    expect(of('message.sent').map(({ role, content }) => [role, content])).toEqual([
      ['user', 'Go north.'],
      ['user', 'Try again.'],
      ['environment', [{ type: 'uri', modality: 'image', uri: 'wall.png' }]],
    ]);
  });

  it('is an episode of its own where another trajectory has the same id, as data sets write them', async () => {
    const other = { ...NEW, content: [...NEW.content.slice(0, -1), { class_: 'message_action', content: 'No.' }] };
    expect(await imported('same-id.jsonl', NEW, other)).toMatchObject({ episodes: 2, calls: 6 });
  });

  it('has the description of a message as the beginning of its text', () => {
    const [, answer] = read('adp', OLD).of('generation.completed');
    expect((answer!.choices as Data[])[0]!.content).toEqual([
      { type: 'text', content: 'It is closed.' },
      { type: 'text', content: 'I cannot.' },
    ]);
    expect(answer).not.toHaveProperty('unmapped');
  });

  it('has what a user wrote before the first tool as its task, and words of the agent that are no answer in its inputs', () => {
    const observation = (source: string, content: string) => ({ class_: 'text_observation', content, source });
    const asked = (text: string) => [
      observation('user', 'Use the shell.'),
      observation('agent', 'I see.'),
      observation('user', text),
    ];
    const { of } = read('adp', {
      id: 'count',
      content: [
        ...asked('Count the files.'),
        { class_: 'code_action', language: 'bash', content: 'ls | wc -l', reward: 1 },
        observation('environment', '7'),
      ],
    });
    expect(of('task.defined')).toMatchObject([{ query: 'Use the shell.\n\nCount the files.' }]);
    expect(of('generation.completed')).toHaveLength(1);
    expect((of('generation.requested')[0]!.input as Data[]).map(({ role }) => role)).toEqual([
      ...['user', 'assistant', 'user'],
    ]);
    expect(of('message.sent').map(({ from, role }) => [from, role])).toEqual([
      ['user', 'user'],
      ['agent', 'assistant'],
      ['user', 'user'],
    ]);
    expect(of('feedback.recorded')).toMatchObject([{ target: { id: `${of('generation.completed')[0]!.call_id}/0` } }]);
    const other = read('adp', { id: 'name', content: asked('Name the files.') });
    expect(other.of('task.defined')).toMatchObject([{ query: 'Use the shell.' }]);
  });

  it('that Troupe exported comes back, and is exported again to the letter', () => {
    const [first, second] = weatherRows() as [object, object];
    const plain = row({ prompt: ASKED, text: 'Perhaps.', agent: 'writer', role: 'writer' });
    const cells = { episode_id: 'e', task_id: 'rain', group_id: 'g', ground_truth: '"rain"' };
    const one = laidOut(adp, [first, second, plain].map((each) => ({ ...each, ...cells })) as never);
    expect(one.rows).toHaveLength(2);
    const back = one.rows.map((each) => read('adp', each));
    expect(back.flatMap(({ refused }) => refused)).toEqual([]);
    expect(
      back.flatMap(({ of }) =>
        of('episode.started').map(({ episode_id, task_id, group_id }) => [episode_id, task_id, group_id]),
      ),
    ).toEqual([
      ['e', 'rain', 'g'],
      ['e', 'rain', 'g'],
    ]);
    expect(back.flatMap(({ of }) => of('agent.defined').map(({ agent_id, role }) => [agent_id, role]))).toEqual([
      ['guide', 'guide'],
      ['writer', 'writer'],
    ]);
    expect(back.flatMap(stepsOf).toSorted()).toEqual(one.rows.flatMap(({ details }) => details.step_ids).toSorted());
    expect(
      laidOut(
        adp,
        back.flatMap((each) => rowsOf(each, cells)),
      ).rows,
    ).toEqual(one.rows);
  });

  it('that Troupe exported has the answers that are no rows as words of the agent: no actions, and no calls when they come back', () => {
    const prompt = [...ASKED, { role: 'assistant', content: 'Where?' }, { role: 'user', content: 'In Rome.' }];
    const { rows, notHeld } = laidOut(adp, [row({ prompt, text: 'It rains.' })]);
    expect(rows[0]!.content.map(({ class_, source }: Data) => [class_, source]).slice(-3)).toEqual([
      ['text_observation', 'agent'],
      ['text_observation', 'user'],
      ['message_action', undefined],
    ]);
    expect(notHeld).toEqual([]);
    const back = read('adp', rows[0]);
    expect(stepsOf(back)).toEqual(rows[0]!.details.step_ids);
    expect(back.of('generation.requested')[0]!.input).toContainEqual(
      expect.objectContaining({ role: 'assistant', content: 'Where?' }),
    );
    const called = { role: 'assistant', content: [CALL] };
    const shown = [...ASKED, called, { role: 'tool', tool_call_id: CALL.id, content: 'rain' }];
    const learnt = 'answers that are no rows of the dataset, which this layout has learnt too';
    expect(laidOut(adp, [row({ prompt: shown, text: 'It rains.' })]).notHeld).toMatchObject([
      { what: learnt, count: 1 },
    ]);
  });

  it('keeps the items beside one that is none', () => {
    const content = [
      ...NEW.content.slice(0, 4),
      { class_: 'api_action' },
      'x',
      { class_: 'text_observation', tool_call_id: 'z', content: '?', source: 'environment' },
    ];
    const { refused, of } = read('adp', { ...NEW, content });
    expect(refused).toEqual([
      'bad_type content[4].function',
      'bad_shape content[5]',
      'bad_reference content[6].tool_call_id',
    ]);
    expect(of('tool.called')).toHaveLength(2);
    expect(of('episode.started')).toMatchObject([{ flags: ['no_token_ids', 'incomplete'] }]);
  });

  it('is recognised without a name', () => {
    expect(known(NEW)).toBe('adp');
    expect(known(laidOut(adp, [row({ prompt: ASKED, content: [CALL] })]).rows[0])).toBe('adp');
    expect(known({ id: 'x', content: [] })).toBe(null);
  });
});

const stepsOf = ({ of }: Read) => of('generation.completed').map(({ call_id }) => `${call_id}/0`);

/** The rows of a dataset that these events would be. */
const rowsOf = ({ of }: Read, cells: object) =>
  of('generation.completed').map(({ call_id, agent_id, choices }, i) => {
    const [choice] = choices as [{ content: unknown }];
    const agent = of('agent.defined')[0]!;
    return row({
      ...cells,
      ground_truth: 'rain',
      ...{ call_id, step_id: `${call_id}/0`, agent: agent_id, role: agent.role },
      prompt: of('generation.requested')[i]!.input,
      ...(typeof choice.content === 'string' ? { text: choice.content } : { content: choice.content }),
    });
  });
