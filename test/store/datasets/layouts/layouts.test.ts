/** What each layout makes of recorded turns; the expected rows are those of the trainers' own documentation. */
import { describe, expect, it } from 'vitest';
import { LAYOUTS } from '../../../../store/datasets/layouts/catalogue.ts';
import { counter } from '../../../../store/datasets/layouts/counter.ts';
import { everything } from '../../../../store/datasets/layouts/everything.ts';
import { countNotHeld } from '../../../../store/datasets/layouts/held.ts';
import { openaiDpo } from '../../../../store/datasets/layouts/openai-dpo.ts';
import { openaiSft } from '../../../../store/datasets/layouts/openai-sft.ts';
import { trlPreference } from '../../../../store/datasets/layouts/trl-preference.ts';
import { trlPrompts } from '../../../../store/datasets/layouts/trl-prompts.ts';
import { trlSft } from '../../../../store/datasets/layouts/trl-sft.ts';
import { trlStepwise } from '../../../../store/datasets/layouts/trl-stepwise.ts';
import { trlTokens } from '../../../../store/datasets/layouts/trl-tokens.ts';
import { trlUnpaired } from '../../../../store/datasets/layouts/trl-unpaired.ts';
import { turnsOf } from '../../../../store/datasets/layouts/turn.ts';
import { verlSft } from '../../../../store/datasets/layouts/verl-sft.ts';
import { ASKED, CALL, laidOut, row, WEATHER, weatherRows } from './rows.ts';

const user = (content: string) => ({ role: 'user', content });
const two = (prompt: unknown, good: string, bad: string, cells = {}) => [
  row({ prompt, text: good, reward: 1, group_id: 'g', episode_id: 'a', ...cells }),
  row({ prompt, text: bad, reward: 0, group_id: 'g', episode_id: 'b', ...cells }),
];

const isMessages = (shape: unknown): boolean => JSON.stringify(shape) === '{"list":"json"}';
/** Where a value holds null. */
const pathsToNull = (value: unknown, path = ''): string[] =>
  value === null
    ? [path]
    : typeof value === 'object'
      ? Object.entries(value!).flatMap(([name, member]) => pathsToNull(member, `${path}/${name}`))
      : [];

describe('TRL', () => {
  it('trl-sft gives each turn as prompt and completion; arguments are objects, content is text', () => {
    const { rows } = laidOut(trlSft, weatherRows());
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: { city: 'Oslo' } } };
    expect(rows).toHaveLength(2);
    expect(rows[0].completion).toMatchObject([
      { role: 'assistant', content: '', reasoning_content: 'Ask the tool.', tool_calls: [call] },
    ]);
    expect(rows[1]).toMatchObject({
      prompt: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Rain in Oslo?' },
        { role: 'assistant', content: '', tool_calls: [call] },
        { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
      ],
      completion: [{ role: 'assistant', content: 'Yes.' }],
      tools: [WEATHER],
    });
  });

  it.each([trlSft, trlUnpaired, trlPreference, trlPrompts, everything, verlSft])(
    '$name gives a message no member that it does not have, whatever the messages beside it have',
    (layout) => {
      const pair = { group_id: 'g', task_id: 't', ground_truth: 'yes' };
      const chat = [
        { role: 'user', name: 'ann', content: 'Rain in Oslo?' },
        {
          role: 'assistant',
          content: [
            { type: 'reasoning', content: 'Ask.' },
            { ...CALL, id: undefined },
          ],
        },
        { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
        user('So?'),
      ];
      const { files } = laidOut(layout, two(chat, 'Yes.', 'No.', pair));
      const [file] = files;
      if (file?.kind !== 'parquet') throw new Error('expected Parquet');
      const columns = Object.keys(file.shapes).filter((name) => isMessages(file.shapes[name]));
      expect(columns.length).toBeGreaterThan(0);
      const messages = file.rows.flatMap((one) => columns.flatMap((name) => one[name] as object[]));
      expect(messages.flatMap((one) => pathsToNull(one))).toEqual([]);
    },
  );

  it('trl-sft has no column for tools where nobody has any', () => {
    const { files } = laidOut(trlSft, [row({ prompt: [user('Hi')], text: 'Hello.' })]);
    expect(files[0]).toMatchObject({ name: 'train.parquet' });
    expect((files[0] as { shapes: object }).shapes).toEqual({
      prompt: { list: 'json' },
      completion: { list: 'json' },
      episode_id: 'text',
      step_id: 'text',
    });
  });

  it('leaves out turns without a prompt or an answer, and says how many of each', () => {
    const { rows, leftOut } = laidOut(trlSft, [
      row({ text: 'no prompt' }),
      row({ prompt: [user('Hi')] }),
      row({ prompt: [user('Hi')], text: 'Hello.' }),
    ]);
    expect(rows).toHaveLength(1);
    expect(leftOut).toEqual([
      { what: 'no prompt was recorded', count: 1 },
      { what: 'no text of the answer was recorded', count: 1 },
    ]);
  });

  it("puts the agent's instructions first where the prompt has no system message", () => {
    const { rows } = laidOut(trlSft, [
      row({ prompt: [user('Hi')], text: 'Hello.', system: 'Be kind.' }),
      row({ prompt: ASKED, text: 'Yes.', system: 'Be kind.' }),
    ]);
    expect(rows.map((one) => one.prompt.map(({ content }: { content: string }) => content))).toEqual([
      ['Be kind.', 'Hi'],
      ['Be brief.', 'Rain in Oslo?'],
    ]);
  });

  it('trl-preference pairs the best with the worst answer to the same prompt of a group', () => {
    const middle = row({ prompt: ASKED, text: 'Maybe.', reward: 0.5, group_id: 'g' });
    const elsewhere = row({ prompt: ASKED, text: 'Dry.', reward: -9, group_id: 'another' });
    const { rows, leftOut } = laidOut(trlPreference, [...two(ASKED, 'Yes.', 'No.'), middle, elsewhere]);
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({
      prompt: [{ role: 'system' }, { role: 'user', content: 'Rain in Oslo?' }],
      chosen: [{ role: 'assistant', content: 'Yes.' }],
      rejected: [{ role: 'assistant', content: 'No.' }],
      chosen_episode_id: 'a',
      rejected_episode_id: 'b',
    });
    expect(leftOut.map(({ count }) => count)).toEqual([2]);
  });

  it('trl-preference makes no pair of answers that say the same or are worth the same', () => {
    const same = laidOut(trlPreference, two(ASKED, 'Yes.', 'Yes.'));
    const equal = laidOut(trlPreference, two(ASKED, 'Yes.', 'No.', { reward: 1 }));
    expect([same.rows, equal.rows]).toEqual([[], []]);
  });

  it('trl-unpaired labels by the sign of the advantage, else by a reward above 0, and leaves out what says neither', () => {
    const labelled = (advantage: number | null, reward: number | null) =>
      row({ prompt: [user('Hi')], text: 'Hello.', advantage, reward });
    const { rows, leftOut } = laidOut(trlUnpaired, [
      labelled(0.5, 0),
      labelled(-0.5, 1),
      labelled(0, 1),
      labelled(null, 1),
      labelled(null, 0),
    ]);
    expect(rows.map(({ label }) => label)).toEqual([true, false, true, false]);
    expect(leftOut).toEqual([{ what: 'no reward, or an advantage of 0: neither good nor bad', count: 1 }]);
  });

  it('trl-prompts gives each prompt once, with the right answer as text', () => {
    const { rows } = laidOut(trlPrompts, two(ASKED, 'Yes.', 'No.', { ground_truth: { rain: true }, task_id: 't' }));
    expect(rows).toHaveLength(1);
    expect(rows[0]).toMatchObject({ ground_truth: '{"rain":true}', task_id: 't' });
    expect(rows[0].prompt.at(-1)).toMatchObject({ role: 'user', content: 'Rain in Oslo?' });
  });

  it.each([['rain', 'rain'] as const, [null, null] as const])(
    'trl-prompts leaves a right answer that is the text %j as it is, and one that is not known null',
    (ground_truth, shown) => {
      const { rows } = laidOut(trlPrompts, two(ASKED, 'Yes.', 'No.', { ground_truth, task_id: 't' }));
      expect(rows).toMatchObject([{ ground_truth: shown }]);
    },
  );

  it('trl-tokens gives tokens as they were sampled and learns only what the model chose', () => {
    const sampled = { prompt_token_ids: [7, 8], token_ids: [3, 4, 5], logprobs: [-1, -2, -3] };
    const { rows, leftOut } = laidOut(trlTokens, [
      row({ ...sampled, loss_mask: [1, 0, 1] }),
      row(sampled),
      row({ ...sampled, loss_mask: [0, 0, 0] }),
      row({ prompt: ASKED, text: 'Yes.' }),
    ]);
    expect(rows.map(({ input_ids, labels, logprobs }) => [input_ids, labels, logprobs])).toEqual([
      [
        [7, 8, 3, 4, 5],
        [-100, -100, 3, -100, 5],
        [-1, -2, -3],
      ],
      [
        [7, 8, 3, 4, 5],
        [-100, -100, 3, 4, 5],
        [-1, -2, -3],
      ],
    ]);
    expect(leftOut).toEqual([
      { what: 'no token of the answer is learnt', count: 1 },
      { what: 'no token ids of prompt and answer were recorded', count: 1 },
    ]);
  });

  it('trl-stepwise gives the texts of an agent in order with a label each, and leaves out agents that call tools', () => {
    const step = (text: string, reward: number) => row({ prompt: [user('1+1?')], text, reward });
    const { rows, leftOut } = laidOut(trlStepwise, [
      step('I add.', 1),
      step('It is 3.', 0),
      ...weatherRows().map((one) => ({ ...one, agent: 'other', reward: 1 })),
    ]);
    expect(rows).toMatchObject([{ prompt: '1+1?', completions: ['I add.', 'It is 3.'], labels: [true, false] }]);
    expect(leftOut).toEqual([{ what: 'one of the answers is no text', count: 2 }]);
  });
});

describe('OpenAI', () => {
  it('openai-sft joins the turns of a conversation; arguments are text as the model wrote it', () => {
    const { rows } = laidOut(openaiSft, weatherRows());
    const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city": "Oslo"}' } };
    expect(rows).toEqual([
      {
        messages: [
          ...ASKED,
          { role: 'assistant', tool_calls: [call] },
          { role: 'tool', content: 'rain', tool_call_id: 'call_1' },
          { role: 'assistant', content: 'Yes.' },
        ],
        tools: [WEATHER],
      },
    ]);
  });

  it.each([['I look.', { content: 'I look.' }] as const, [null, {}] as const])(
    'openai-sft keeps the text %j beside a call, and has no content where there is none',
    (text, content) => {
      const parts = text === null ? [] : [{ type: 'text', text }];
      const { rows } = laidOut(openaiSft, [row({ prompt: ASKED, content: [...parts, CALL] })]);
      const call = { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city": "Oslo"}' } };
      expect(rows[0].messages.at(-1)).toEqual({ role: 'assistant', ...content, tool_calls: [call] });
    },
  );

  it('openai-sft gives answers that are no rows of the dataset weight 0', () => {
    const { rows } = laidOut(openaiSft, weatherRows().slice(1));
    expect(rows[0].messages.filter(({ role }: { role: string }) => role === 'assistant')).toMatchObject([
      { weight: 0 },
      { content: 'Yes.' },
    ]);
    expect(rows[0].messages.at(-1)).not.toHaveProperty('weight');
  });

  it('openai-dpo names the input and the two outputs as the API does', () => {
    expect(laidOut(openaiDpo, two([user('Hi')], 'Hello.', 'Go away.', { tools: [WEATHER] })).rows).toEqual([
      {
        input: { messages: [user('Hi')], tools: [WEATHER] },
        preferred_output: [{ role: 'assistant', content: 'Hello.' }],
        non_preferred_output: [{ role: 'assistant', content: 'Go away.' }],
      },
    ]);
  });
});

describe('What a layout cannot hold', () => {
  it('is counted by row: images, reasoning, members, tokens and texts that no tokenizer takes', () => {
    const odd = row({
      prompt: [
        {
          role: 'user',
          content: [
            { type: 'text', content: 'See' },
            { type: 'image_url', image_url: { url: 'x' } },
          ],
        },
        { role: 'assistant', content: [CALL], refusal: 'no' },
      ],
      text: 'half \uFFFED83D',
      token_ids: [1],
      prompt_token_ids: [2],
      logprobs: [-1],
    });
    const lost = counter();
    const turns = turnsOf([odd], 'step', lost);
    countNotHeld(turns, openaiDpo.holds, lost);
    expect(Object.fromEntries(lost.list().map(({ what, count }) => [what, count]))).toEqual({
      'texts with half a character (a lone surrogate), written as U+FFFD': 1,
      'token ids': 1,
      'log-probabilities': 1,
      'step ids': 1,
      'parts of type image_url': 1,
      'member refusal of messages': 1,
    });
    expect(turns[0]!.answer!.text).toBe('half \uFFFD');
  });

  it('leaves out a row whose messages have images, which would be learnt behind another prompt', () => {
    const seen = { role: 'user', content: [{ type: 'image_url', image_url: { url: 'x' } }] };
    const rows = [row({ prompt: [seen], text: 'A cat.' }), row({ prompt: ASKED, text: 'Yes.', call_id: 'c2' })];
    for (const name of ['trl-sft', 'openai-sft', 'axolotl', 'trl-prompts', 'everything']) {
      const { rows: held, leftOut } = laidOut(LAYOUTS.find((one) => one.name === name)!, rows);
      expect(held, name).toHaveLength(1);
      expect(leftOut, name).toContainEqual(
        expect.objectContaining({ what: 'a message has parts that are no text, such as images', count: 1 }),
      );
    }
  });

  it('is nothing in `everything`, which has tokens, log-probabilities and the mask of a turn', () => {
    const tokens = { prompt_token_ids: [1, 2], token_ids: [3, 4], logprobs: [-0.5, -1], loss_mask: [1, 0] };
    const { rows, turns, notHeld } = laidOut(everything, [row({ prompt: ASKED, text: 'Yes.', reward: 1, ...tokens })]);
    const lost = counter();
    countNotHeld(turns, everything.holds, lost);
    expect([...notHeld, ...lost.list()]).toEqual([]);
    expect(rows[0]).toMatchObject({
      prompt_token_ids: [1, 2],
      completion_token_ids: [3, 4],
      logprobs: [-0.5, -1],
      loss_mask: [1, 0],
      reward: 1,
    });
  });
});
