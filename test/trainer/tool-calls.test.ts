import { describe, expect, it } from 'vitest';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import { openTokenizer, wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';
import { callReader } from '../../trainer/model/tokens/tool-calls.ts';
import { prepareSample, toChoice } from '../../trainer/sample/infer-request.ts';

const tagged = callReader('{{ "<tool_call>" }}')!;
const bare = callReader('Respond in the format {"name": function name, "parameters": dictionary of argument name}.')!;

describe('tool calls between tags', () => {
  it('are read with their arguments as they were written, beside the text', () => {
    expect(tagged('I add.\n<tool_call>\n{"name": "add", "arguments": {"a":1.50,  "b":"}"}}\n</tool_call>')).toEqual({
      content: 'I add.',
      calls: [{ name: 'add', arguments: '{"a":1.50,  "b":"}"}' }],
    });
    expect(tagged('<tool_call>{"name":"a","arguments":{}}</tool_call>\n<tool_call>{"name":"b"}')).toEqual({
      content: '',
      calls: [
        { name: 'a', arguments: '{}' },
        { name: 'b', arguments: '{}' },
      ],
    });
    expect(tagged('<tool_call>{"arguments": {"x": 1}, "name": "late"}</tool_call>')?.calls).toEqual([
      { name: 'late', arguments: '{"x":1}' },
    ]);
  });

  it.each([
    'no call',
    '<tool_call>\n{"name": "add", "arguments": {"a": 1}\n',
    '<tool_call>\n{"name": 4, "arguments": {}}\n</tool_call>',
    '<tool_call></tool_call>',
    'a tag <tool_call> that is only named',
    '<think>\nI would write <tool_call>{"name": "a", "arguments": {}}</tool_call>\n</think>\n\nNo.',
  ])('are none where none can be read: %s', (text) => {
    expect(tagged(text)).toBeNull();
  });

  it('are read though a string in them holds the tags, or quotes and braces', () => {
    const text = 'a </tool_call> b <tool_call> {"c": "\\"} </think>';
    const written = JSON.stringify({ text, deep: [{ text }] });
    const call = `<tool_call>\n{"name": "write", "arguments": ${written}}\n</tool_call>`;
    const two = `Done.\n${call}\n${call}`;
    expect(tagged(call)).toEqual({ content: '', calls: [{ name: 'write', arguments: written }] });
    expect(tagged(two)?.calls).toHaveLength(2);
    expect(tagged(two)?.content).toBe('Done.');
  });

  it.each([
    ['names the tag', 'I could use <tool_call> here.'],
    ['rehearses a call', 'Like <tool_call>{"name": "v", "arguments": {}}</tool_call>?'],
  ])('are read behind a thought that %s, whether the answer or its prompt opened it', (_, thought) => {
    const call = '<tool_call>\n{"name": "w", "arguments": {"city": "Rome"}}\n</tool_call>';
    const calls = [{ name: 'w', arguments: '{"city": "Rome"}' }];
    for (const opened of ['<think>\n', '']) {
      const content = `${opened}${thought}\n</think>`;
      expect(tagged(`${content}\n\n${call}`)).toEqual({ content, calls });
    }
  });

  it('that cannot be read stay in the text, and the others are read', () => {
    const good = '<tool_call>{"name": "a", "arguments": {}}</tool_call>';
    for (const bad of [
      '<tool_call>oh</tool_call>',
      '<tool_call>{"name": 4}</tool_call>',
      '<tool_call>{"name": "x}</tool_call>',
    ]) {
      expect(tagged(`${good}${bad}`)).toEqual({ content: bad, calls: [{ name: 'a', arguments: '{}' }] });
      expect(tagged(`${bad}${good}`)).toEqual({ content: bad, calls: [{ name: 'a', arguments: '{}' }] });
    }
  });
});

it('a call that is the whole answer is read as Llama writes it', () => {
  expect(bare('<|python_tag|>{"name": "add", "parameters": {"a": 1}}')).toEqual({
    content: '',
    calls: [{ name: 'add', arguments: '{"a": 1}' }],
  });
  expect(bare('The answer is {"name": "add", "parameters": {}}')).toBeNull();
});

describe('a chat template', () => {
  const tokenizer = openTokenizer(wordTokenizer(['a'], ['<pad>'], { pad: '<pad>' }));
  const call = { id: '1', type: 'function', function: { name: 'f', arguments: '{"a": 1}' } };
  const talk = [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'one' },
        { type: 'text', text: 'two' },
      ],
    },
    { role: 'assistant', content: '', tool_calls: [call] },
  ];
  const template = (args: string) =>
    chatTemplate(
      `{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %} args: ${args}{% endfor %};{% endfor %}`,
      tokenizer,
    );

  it('that writes arguments as JSON is given their value, and one that repeats text the text', () => {
    expect(template('{{ c.function.arguments | tojson }}').render(talk)).toContain('args: {"a": 1};');
    expect(template('{{ c.function.arguments }}').render(talk)).toContain('args: {"a": 1};');
  });

  it('that reads no lists is given one text', () => {
    expect(template('').render(talk)).toContain('user: one\ntwo;');
  });

  it('without tools, or with calls in another form, reads no calls', () => {
    expect(template('').readCalls).toBeNull();
    expect(chatTemplate('{{ tools }}', tokenizer).readCalls).toBeNull();
  });
});

it('a response of one call ends with its first call, though a string in it holds the text that ends calls', () => {
  const files = trainBpe(['a call'], { vocabSize: 300, special: CHATML_SPECIAL, roles: CHATML_ROLES });
  const tokenizer = openTokenizer(files);
  const template = chatTemplate(CHATML_TEMPLATE, tokenizer);
  const model = { config: { vocab_size: 300, max_position_embeddings: 4096 }, tokenizer, template, eosIds: [2] };
  const tools = [{ type: 'function', function: { name: 'write', parameters: { type: 'object' } } }];
  const ask = { messages: [{ role: 'user', content: 'q' }], tools, one_call: true };
  const prepared = prepareSample(ask as never, model as never, { maxRows: 1 });
  const call = '<tool_call>\n{"name": "write", "arguments": {"text": "use </tool_call> to end"}}\n</tool_call>';
  const tokenIds = tokenizer.encode(`${call}\n${call}`);
  // It ends once the first call is whole, and is looked at after every fourth token.
  const ends = tokenIds.findIndex((_, i) => prepared.request.ended!(tokenIds.slice(0, i + 1))) + 1;
  const first = tokenizer.encode(call).length;
  expect(ends).toBeGreaterThanOrEqual(first);
  expect(ends).toBeLessThan(first + 4);
  const drawn = tokenIds.slice(0, ends);
  const choice = toChoice({ tokenIds: drawn, logprobs: drawn.map(() => -1), finish: 'stop' }, prepared, tokenizer);
  expect(choice.text).toBe(call);
  expect(choice.called?.calls).toEqual([{ name: 'write', arguments: '{"text": "use </tool_call> to end"}' }]);
  expect(tokenizer.decode(choice.token_ids)).toBe(call);
});
