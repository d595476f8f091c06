import { describe, expect, it } from 'vitest';
import { canonicalJson } from '../../ingest/events/json.ts';
import { preferenceLine, preferenceRows } from '../../trainer/learn/data/preference-rows.ts';
import { readRows, supervisedLine } from '../../trainer/learn/data/training-files.ts';
import { type StepRow, supervisedRow, type TokenRow } from '../../trainer/learn/data/training-rows.ts';
import type { OpenModel } from '../../trainer/model/model-directory.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';

const tokenizer = openTokenizer(
  trainBpe(['weather in Rome and in Oslo'], { vocabSize: 300, special: CHATML_SPECIAL, roles: CHATML_ROLES }),
);
const template = chatTemplate(CHATML_TEMPLATE, tokenizer);
const model = { tokenizer, template, eosIds: [tokenizer.eos!], config: { vocab_size: 400 } };

const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];
const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city": "Rome"}' } };
const asked: readonly ChatMessage[] = [{ role: 'user', content: 'Rome?' }];
const answer: ChatMessage = { role: 'assistant', content: null, tool_calls: [call] };
const chat: readonly ChatMessage[] = [
  ...asked,
  answer,
  { role: 'tool', tool_call_id: 'c1', content: 'sun' },
  { role: 'assistant', content: 'Sun.' },
];

const CALLED = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>\n';
const learnt = ({ tokenIds, trained }: TokenRow): string => tokenizer.decode(tokenIds.filter((_, t) => trained[t]));
const whole = ({ promptIds, tokenIds }: TokenRow): string => tokenizer.decode([...promptIds, ...tokenIds]);

describe('rows with tools', () => {
  it('a chat shows the tools to the model, and its calls are learnt as the template writes them', () => {
    const row = supervisedLine({ messages: chat, tools }, model);
    expect(whole(row)).toBe(template.render(chat, { tools }));
    expect(whole(row)).toContain('"parameters": {"type": "object"}');
    expect(learnt(row)).toBe(`${CALLED}Sun.<|im_end|>\n`);
  });

  it('a row that was recorded is learnt behind the prompt that its client got, though the record keeps no order of members', () => {
    const asClientsWrite = `[{"type":"function","function":{"name":"weather","description":"of a city","parameters":{"type":"object","properties":{"day":{"type":"string"},"city":{"type":"string","enum":["Rome"]}},"required":["city"]}}}]`;
    const offered = JSON.parse(asClientsWrite) as unknown[];
    const recorded = JSON.parse(canonicalJson(offered)) as unknown[];
    expect(JSON.stringify(recorded)).not.toBe(asClientsWrite);
    const shown = (tools: unknown[]) => template.render(asked, { tools });
    expect(shown(recorded)).toBe(shown(offered));
    expect(shown(recorded)).toContain(
      '{"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Rome"]}, "day": {"type": "string"}}, "required": ["city"]}}}',
    );
  });

  it.each<[string, object]>([
    ['the Messages API', { name: 'weather', description: 'of a city', input_schema: { type: 'object' } }],
    [
      'the Messages API, with a type',
      { type: 'custom', name: 'weather', description: 'of a city', input_schema: { type: 'object' } },
    ],
    [
      'the Responses API',
      { type: 'function', name: 'weather', description: 'of a city', parameters: { type: 'object' } },
    ],
    ['a data set', { name: 'weather', description: 'of a city', parameters: { type: 'object' } }],
    ['the Model Context Protocol', { name: 'weather', description: 'of a city', inputSchema: { type: 'object' } }],
  ])('a tool in the form of %s is shown in that of the chat API, in which it is served', (_, tool) => {
    const wrapped = {
      type: 'function',
      function: { name: 'weather', description: 'of a city', parameters: { type: 'object' } },
    };
    expect(template.render(asked, { tools: [tool] })).toBe(template.render(asked, { tools: [wrapped] }));
  });

  it('tools of which only names are known are not shown, since nothing defines them', () => {
    expect(template.render(asked, { tools: ['weather', { description: 'of a city' }] })).toBe(template.render(asked));
  });

  it('a tool that the provider of a model runs stays as it is', () => {
    expect(template.render(asked, { tools: [{ type: 'web_search', name: 'web' }] })).toContain(
      '{"type": "web_search", "name": "web"}',
    );
  });

  it('a row whose prompt has a message of no known role is refused, and the others are learnt', () => {
    const step = { episode_id: 'e', call_id: 'c', candidate: 0, token_ids: null, prompt_token_ids: null, text: 'Sun.' };
    const rows = ['user', 'unknown'].map((role) => ({ ...step, prompt: [{ role, content: 'Rome?' }] }));
    const { rows: learnt, refused } = readRows(rows, (row) =>
      supervisedRow(row as never, model as unknown as OpenModel),
    );
    expect(learnt).toHaveLength(1);
    expect(refused).toMatchObject([{ line: 2, field: 'prompt[0].role', got: 'unknown' }]);
  });

  it('a template that marks what is generated gives the same with tools', () => {
    const marked = `{% for tool in tools or [] %}{{ tool.function.name }};{% endfor %}{% for message in messages %}{% if message.role == 'assistant' %}{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}`;
    const { ids, lossMask } = chatTemplate(marked, tokenizer).maskedIds(
      [...asked, { role: 'assistant', content: 'Sun.' }],
      { tools },
    );
    expect(tokenizer.decode(ids)).toBe('weather;Rome?Sun.<|im_end|>');
    expect(tokenizer.decode(ids.filter((_, i) => lossMask[i] === 1))).toBe('Sun.<|im_end|>');
  });

  it('a prompt with tools and a recorded call are the same row', () => {
    const completed = supervisedLine({ prompt: asked, completion: [answer], tools }, model);
    const recorded = supervisedLine(
      { request: { messages: asked, tools }, response: { choices: [{ index: 0, message: answer }] } },
      model,
    );
    expect(recorded).toEqual(completed);
    expect(learnt(recorded)).toBe(CALLED);
    expect(tokenizer.decode(recorded.promptIds)).toBe(template.render(asked, { tools, addGenerationPrompt: true }));
  });

  it.each([
    [{ messages: chat, tools: 'all' }, 'tools'],
    [{ messages: chat, tools: ['weather'] }, 'tools'],
    [{ messages: [...asked, { content: 'x' }] }, 'messages[1]'],
    [{ request: { messages: asked }, response: { choices: [] } }, 'response.choices[0].message'],
    ...['length', 'content_filter', 'error'].map((finish_reason): [object, string] => [
      { request: { messages: asked }, response: { choices: [{ message: answer, finish_reason }] } },
      'response.choices[0].finish_reason',
    ]),
    [{ request: 'x', response: {} }, 'request'],
  ])('a row that does not fit is refused by its field: %j', (row, field) => {
    expect(() => supervisedLine(row, model)).toThrow(
      expect.objectContaining({ code: 'input_refused', detail: expect.objectContaining({ field }) }),
    );
  });
});

describe('steps of a dataset', () => {
  const step: StepRow = {
    ...{ episode_id: 'e', group_id: null, task_id: 't', call_id: 'c', candidate: 0, role: null, advantage: null },
    ...{ prompt_token_ids: null, token_ids: null, logprobs: null, loss_mask: null },
    prompt: JSON.stringify(asked),
    text: null,
  };
  const parts = [
    { type: 'tool_call', id: 'c1', name: 'weather', arguments: { city: 'Rome' }, arguments_raw: '{"city": "Rome"}' },
  ];
  const open = model as unknown as OpenModel;

  it('a call of a tool is learnt as in a chat', () => {
    const row = supervisedRow({ ...step, content: JSON.stringify(parts) }, open);
    expect(learnt(row)).toBe(CALLED);
    expect(row.promptIds).toEqual(template.promptIds(asked));
  });

  it('text before a call goes before it, and recorded messages of the prompt are read as they were sent', () => {
    const prompt = JSON.stringify([...asked, { role: 'assistant', content: parts }, chat[2]]);
    const row = supervisedRow(
      { ...step, prompt, content: JSON.stringify([{ type: 'text', content: 'Again.' }, ...parts]) },
      open,
    );
    expect(learnt(row)).toBe(`Again.\n${CALLED}`);
    expect(row.promptIds).toEqual(template.promptIds(chat.slice(0, 3)));
  });

  it('the instructions of the agent and the tools that it was offered stand before the prompt, as when it was asked', () => {
    const system = 'Answer in one word.';
    const row = supervisedRow({ ...step, system, tools: JSON.stringify(tools), text: 'Sun.' }, open);
    const instructed = [{ role: 'system', content: system }, ...asked];
    expect(tokenizer.decode(row.promptIds)).toBe(template.render(instructed, { tools, addGenerationPrompt: true }));
    expect(learnt(row)).toBe('Sun.<|im_end|>\n');
    const calling = supervisedRow({ ...step, system, tools, content: JSON.stringify(parts) }, open);
    expect(calling.promptIds).toEqual(row.promptIds);
  });

  it('a prompt that begins with instructions of its own gets no others', () => {
    const prompt = [{ role: 'developer', content: 'Be brief.' }, ...asked];
    const row = supervisedRow({ ...step, prompt, system: 'Answer in one word.', text: 'Sun.' }, open);
    expect(tokenizer.decode(row.promptIds)).toBe(template.render(prompt, { addGenerationPrompt: true }));
  });

  it('pairs see the same instructions and tools, from a dataset and from a file', () => {
    const system = 'Answer in one word.';
    const answers = {
      chosen: [{ role: 'assistant', content: 'Sun.' }],
      rejected: [{ role: 'assistant', content: 'Rain.' }],
    };
    const row = { prompt: asked, system, tools, ...answers };
    const [frozen] = preferenceRows({ rows: () => [row] }, open);
    const written = preferenceLine(
      { prompt: [{ role: 'system', content: system }, ...asked], tools, ...answers },
      model,
    );
    for (const { promptIds } of [frozen!, written])
      expect(tokenizer.decode(promptIds)).toBe(
        template.render([{ role: 'system', content: system }, ...asked], { tools, addGenerationPrompt: true }),
      );
  });

  it('a step of which nothing is known is refused by its number, and the others are kept', () => {
    const { rows, refused } = readRows([{ ...step, text: 'Sun.' }, step, { ...step, text: 'x', prompt: null }], (row) =>
      supervisedRow(row, open),
    );
    expect(rows.map(learnt)).toEqual(['Sun.<|im_end|>\n']);
    expect(refused.map(({ line, field }) => [line, field])).toEqual([
      [2, 'text'],
      [3, 'prompt'],
    ]);
  });
});
