/** Layouts of trainers that are not run here: the expected rows are written by hand from what their loaders read. */
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { anthropic } from '../../../../store/datasets/layouts/anthropic.ts';
import { axolotl } from '../../../../store/datasets/layouts/axolotl.ts';
import { counter } from '../../../../store/datasets/layouts/counter.ts';
import { llamaFactoryDpo } from '../../../../store/datasets/layouts/llama-factory-dpo.ts';
import { llamaFactorySft } from '../../../../store/datasets/layouts/llama-factory-sft.ts';
import { primeRlSft } from '../../../../store/datasets/layouts/prime-rl-sft.ts';
import { verlRl } from '../../../../store/datasets/layouts/verl-rl.ts';
import { verlSft } from '../../../../store/datasets/layouts/verl-sft.ts';
import { ASKED, CALL, laidOut, row, WEATHER, weatherRows } from './rows.ts';

const LEARNT_TOO = 'answers that are no rows of the dataset, which this layout has learnt too';
const textOf = (of: ReturnType<typeof laidOut>) =>
  of.files.flatMap((file) => (file.kind === 'text' ? [file.text] : [])).join('');

describe('LLaMA-Factory', () => {
  it('reads prompts and answers in turns, calls as JSON text, the system prompt and the tools apart', () => {
    const of = laidOut(llamaFactorySft, weatherRows());
    expect(of.rows).toEqual([
      {
        system: 'Be brief.',
        conversations: [
          { from: 'human', value: 'Rain in Oslo?' },
          {
            from: 'function_call',
            value:
              '<think>\nAsk the tool.\n</think>\n\n<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>',
          },
          { from: 'observation', value: 'rain' },
          { from: 'gpt', value: 'Yes.' },
        ],
        tools: JSON.stringify([WEATHER]),
      },
    ]);
    expect(JSON.parse(textOf(of))).toEqual({
      test_train: {
        file_name: 'train.jsonl',
        formatting: 'sharegpt',
        columns: { messages: 'conversations', system: 'system', tools: 'tools' },
      },
    });
  });

  it('reads thoughts before what was said, between the marks that its templates have', () => {
    const thinks = (...parts: readonly object[]) =>
      laidOut(llamaFactorySft, [
        row({ prompt: ASKED, content: [{ type: 'reasoning', content: 'Look.' }, ...parts] }),
      ]).rows[0].conversations.at(-1).value;
    const says = { type: 'text', text: 'I look.' };
    expect(thinks(says)).toBe('<think>\nLook.\n</think>\n\nI look.');
    expect(thinks(CALL)).toBe(
      '<think>\nLook.\n</think>\n\n<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>',
    );
    expect(thinks(says, CALL)).toBe(
      '<think>\nLook.\n</think>\n\nI look.\n<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>',
    );
  });

  it('leaves out what it would skip: two messages of one side behind each other', () => {
    const twice = [
      { role: 'user', content: 'a' },
      { role: 'user', content: 'b' },
    ];
    const { rows, leftOut } = laidOut(llamaFactorySft, [
      row({ prompt: twice, text: 'c' }),
      row({ prompt: ASKED, text: 'Yes.' }),
    ]);
    expect(rows).toHaveLength(1);
    expect(leftOut).toEqual([
      { what: 'messages of one side follow each other, or a system message is not the first', count: 1 },
    ]);
  });

  it('reads text beside a call before it, and no mark in arguments for one of its own', () => {
    const says = (text: string, city: string) =>
      row({
        prompt: ASKED,
        content: [
          { type: 'text', text },
          { ...CALL, arguments: { city } },
        ],
      });
    const { rows, notHeld } = laidOut(llamaFactorySft, [
      says('I look.', 'Oslo'),
      says('', '</tool_call><think>'),
      says('So: <tool_call>', 'Oslo'),
    ]);
    const last = rows.map((one) => one.conversations.at(-1).value);
    expect(last).toEqual([
      'I look.\n<tool_call>{"name":"weather","arguments":{"city":"Oslo"}}</tool_call>',
      '{"name":"weather","arguments":{"city":"\\u003c/tool_call>\\u003cthink>"}}',
      '{"name":"weather","arguments":{"city":"Oslo"}}',
    ]);
    expect(notHeld).toEqual([{ what: 'text beside a call of a tool with <tool_call> in it', count: 1 }]);
  });

  it('joins the results of several calls, as it does with the format of OpenAI', () => {
    const both = { role: 'assistant', content: [CALL, { ...CALL, id: 'call_2', arguments: { city: 'Bergen' } }] };
    const results = ['rain', 'sun'].map((content, i) => ({ role: 'tool', content, tool_call_id: `call_${i + 1}` }));
    const { rows, leftOut } = laidOut(llamaFactorySft, [
      row({ prompt: [...ASKED, both, ...results], text: 'Bergen.' }),
    ]);
    expect(leftOut).toEqual([]);
    expect(rows[0].conversations.map(({ from }: { from: string }) => from)).toEqual([
      'human',
      'function_call',
      'observation',
      'gpt',
    ]);
    expect(rows[0].conversations[2].value).toBe('rain\n</tool_response>\n<tool_response>\nsun');
  });

  it('ranks two answers to one prompt, and says so in dataset_info.json', () => {
    const answer = (text: string, reward: number) => row({ prompt: ASKED, text, reward, group_id: 'g' });
    const of = laidOut(llamaFactoryDpo, [answer('No.', 0), answer('Yes.', 1)]);
    expect(of.rows).toEqual([
      {
        system: 'Be brief.',
        conversations: [{ from: 'human', value: 'Rain in Oslo?' }],
        chosen: { from: 'gpt', value: 'Yes.' },
        rejected: { from: 'gpt', value: 'No.' },
        tools: '',
      },
    ]);
    expect(JSON.parse(textOf(of)).test_train).toMatchObject({
      ranking: true,
      columns: { messages: 'conversations', chosen: 'chosen', rejected: 'rejected' },
    });
  });

  it('says that it learns answers that are no rows of the dataset', () => {
    const { notHeld } = laidOut(llamaFactorySft, weatherRows().slice(1));
    expect(notHeld).toEqual([{ what: LEARNT_TOO, count: 1 }]);
  });
});

describe('Axolotl', () => {
  it('marks each message as learnt or not, and its configuration names the mark', () => {
    const of = laidOut(axolotl, weatherRows().slice(1));
    expect(of.rows[0].messages.map(({ role, train }: { role: string; train: boolean }) => [role, train])).toEqual([
      ['system', false],
      ['user', false],
      ['assistant', false],
      ['tool', false],
      ['assistant', true],
    ]);
    expect(parse(textOf(of))).toEqual({
      datasets: [
        {
          path: 'train.jsonl',
          ds_type: 'json',
          type: 'chat_template',
          field_messages: 'messages',
          roles_to_train: [],
          train_on_eos: 'turn',
          message_field_training: 'train',
        },
      ],
    });
    expect(JSON.parse(of.rows[0].tools)).toEqual([WEATHER]);
  });

  it('names the file of each part that it trains and tests on, and no other', () => {
    const about = { name: 'test', leftOut: counter(), notHeld: counter() };
    const turns = laidOut(axolotl, weatherRows()).turns;
    const named = (...splits: readonly (readonly ['train' | 'validation' | 'held_out' | 'test', boolean])[]) => {
      const parts = splits.map(([split, filled]) => ({ split, turns: filled ? turns : [] }));
      const text = axolotl.files(parts, about).find(({ name }) => name === 'axolotl.yaml');
      if (text?.kind !== 'text') throw new Error('expected a text');
      const read = parse(text.text) as Record<string, { path: string }[]>;
      return Object.fromEntries(Object.entries(read ?? {}).map(([key, of]) => [key, of.map(({ path }) => path)]));
    };
    const both = { datasets: ['train.jsonl'], test_datasets: ['held_out.jsonl'] };
    expect(named(['train', true], ['held_out', true])).toEqual(both);
    expect(named(['train', true], ['held_out', false])).toEqual({ datasets: ['train.jsonl'] });
    // It tests while it trains, so on the part by which checkpoints are chosen, and never on the last one.
    expect(named(['train', true], ['validation', true], ['test', true])).toEqual({
      datasets: ['train.jsonl'],
      test_datasets: ['validation.jsonl'],
    });
  });

  it('ends a conversation with an answer that has thoughts, which templates leave out before a later question', () => {
    const { rows } = laidOut(axolotl, weatherRows());
    expect(rows.map((one) => one.messages.length)).toEqual([3, 5]);
    expect(rows[0].messages[2]).toMatchObject({ reasoning_content: 'Ask the tool.', train: true });
    expect(rows[1].messages[2]).toMatchObject({ role: 'assistant', train: false });
    expect(rows[1].messages[2]).not.toHaveProperty('reasoning_content');
  });

  it('leaves out what it would end at: arguments that are no JSON object', () => {
    const odd = row({ prompt: ASKED, content: [{ ...CALL, arguments: '{"city": ' }] });
    const { rows, leftOut } = laidOut(axolotl, [odd, ...weatherRows().slice(1)]);
    expect(rows).toHaveLength(1);
    expect(leftOut).toEqual([{ what: 'the arguments of a call are no JSON object, at which Axolotl ends', count: 1 }]);
  });
});

describe('verl', () => {
  it('gives each prompt with the right answer, and leaves out tasks whose answer is not known', () => {
    const { rows, leftOut } = laidOut(verlRl, [
      row({ prompt: ASKED, text: 'Yes.', ground_truth: 'rain', task_id: 't', step_id: 's/0' }),
      row({ prompt: [{ role: 'user', content: 'Snow?' }], text: 'No.' }),
    ]);
    expect(rows).toEqual([
      {
        data_source: 'test',
        prompt: ASKED,
        ability: null,
        reward_model: { style: 'rule', ground_truth: 'rain' },
        extra_info: { split: 'train', index: 0, task_id: 't', episode_id: 'e', step_id: 's/0', agent: 'guide' },
      },
    ]);
    expect(leftOut).toEqual([{ what: 'no right answer is known of the task', count: 1 }]);
  });

  it('gives whole conversations for supervised learning, with thoughts, and arguments as values', () => {
    const { rows } = laidOut(verlSft, weatherRows());
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: { city: 'Oslo' } } };
    expect(rows).toEqual([
      {
        messages: [
          ...ASKED,
          { role: 'assistant', content: '', reasoning_content: 'Ask the tool.', tool_calls: [call] },
          { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
          { role: 'assistant', content: 'Yes.' },
        ],
        tools: [WEATHER],
      },
    ]);
  });

  it('gives messages as values where all have the same members, for which it needs no class', () => {
    const { files } = laidOut(verlSft, [row({ prompt: ASKED, text: 'Yes.' })]);
    expect(files.map(({ name }) => name)).toEqual(['train.parquet']);
    expect(files[0]).toMatchObject({
      shapes: { messages: { list: { struct: { role: 'text', content: 'text' } } } },
    });
  });

  it('gives definitions of tools as values where all have the same members, else as text', () => {
    const other = (parameters: unknown) => ({ type: 'function', function: { name: 'wait', parameters } });
    const columns = (tool: unknown) => {
      const plain = row({ prompt: [{ role: 'user', content: 'Hello' }], text: 'Hi.', agent: 'without tools' });
      const { rows, files, notHeld } = laidOut(verlSft, [
        ...weatherRows(),
        row({ prompt: ASKED, text: 'Yes.', tools: [tool], agent: 'b' }),
        plain,
      ]);
      const names = files.map(({ name }) => name);
      expect(names).toEqual(['train.parquet', 'troupe_verl.py']);
      return {
        tools: rows.map((one) => one.tools ?? JSON.parse(one.tools_json)),
        text: 'tools_json' in rows[0],
        notHeld,
      };
    };
    const same = columns(other({ type: 'array' }));
    expect(same).toEqual({ tools: [[WEATHER], [other({ type: 'array' })], []], text: false, notHeld: [] });
    // The order of members is none of theirs: all are written in one.
    expect(columns({ function: WEATHER.function, type: 'function' }).text).toBe(false);
    const text = 'definitions of tools as values: their members differ, so they are text, which troupe_verl.py reads';
    for (const odd of [
      other({ type: 'object', required: ['city'] }),
      other({ type: null }),
      other({}),
      other({ type: 3 }),
    ])
      expect(columns(odd)).toEqual({ tools: [[WEATHER], [odd], []], text: true, notHeld: [{ what: text, count: 3 }] });
  });
});

it('prime-rl reads messages, and tools as JSON text', () => {
  const { rows } = laidOut(primeRlSft, weatherRows());
  expect(rows).toHaveLength(1);
  expect(rows[0].messages).toHaveLength(5);
  expect(rows[0].messages[2]).toMatchObject({ reasoning_content: 'Ask the tool.' });
  expect(JSON.parse(rows[0].tools)).toEqual([WEATHER]);
});

describe('Anthropic messages', () => {
  it('hold the system prompt apart, calls and results as blocks, and tools with an input_schema', () => {
    const both = { role: 'assistant', content: [{ type: 'text', content: 'I ask.' }, CALL] };
    const prompt = [
      ...ASKED,
      both,
      { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
      { role: 'user', content: 'So?' },
    ];
    const { rows, notHeld } = laidOut(anthropic, [row({ prompt, text: 'Yes.', tools: [WEATHER] })]);
    expect(rows).toEqual([
      {
        system: 'Be brief.',
        messages: [
          { role: 'user', content: [{ type: 'text', text: 'Rain in Oslo?' }] },
          {
            role: 'assistant',
            content: [
              { type: 'text', text: 'I ask.' },
              { type: 'tool_use', id: 'call_1', name: 'weather', input: { city: 'Oslo' } },
            ],
          },
          {
            role: 'user',
            content: [
              { type: 'tool_result', tool_use_id: 'call_1', content: 'rain' },
              { type: 'text', text: 'So?' },
            ],
          },
          { role: 'assistant', content: [{ type: 'text', text: 'Yes.' }] },
        ],
        tools: [{ name: 'weather', input_schema: { type: 'object' } }],
      },
    ]);
    expect(notHeld).toEqual([{ what: LEARNT_TOO, count: 1 }]);
  });

  it('leave out what the API refuses: arguments that are no object, and a conversation that the assistant begins', () => {
    const odd = { ...CALL, arguments: 'not JSON' };
    const { rows, leftOut } = laidOut(anthropic, [
      row({ prompt: ASKED, content: [odd] }),
      row({
        prompt: [
          { role: 'assistant', content: 'Hi' },
          { role: 'user', content: 'Hi' },
        ],
        text: 'So?',
      }),
    ]);
    expect(rows).toEqual([]);
    expect(leftOut.map(({ what }) => what)).toEqual([
      'the arguments of a call are no JSON object',
      'the first message is the assistant’s',
    ]);
  });
});
