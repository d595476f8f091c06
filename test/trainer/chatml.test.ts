import { describe, expect, it } from 'vitest';
import { answerRow } from '../../trainer/learn/data/training-rows.ts';
import { CHATML_ROLES, CHATML_SPECIAL, CHATML_TEMPLATE } from '../../trainer/model/tokens/chatml.ts';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import { openTokenizer } from '../../trainer/model/tokens/tokenizer.ts';
import { trainBpe } from '../../trainer/model/tokens/tokenizer-training.ts';

const tokenizer = openTokenizer(
  trainBpe(['a conversation about tools and tools'], {
    vocabSize: 300,
    special: CHATML_SPECIAL,
    roles: CHATML_ROLES,
  }),
);
const template = chatTemplate(CHATML_TEMPLATE, tokenizer);

const played: readonly ChatMessage[] = [
  { role: 'system', content: 'Be brief.' },
  { role: 'user', content: ' two spaces  and a break\n' },
  {
    role: 'assistant',
    content: null,
    tool_calls: [
      { id: '1', type: 'function', function: { name: 'add', arguments: '{"a":1,  "b":2}' } },
      { id: '2', function: { name: 'find', arguments: { text: 'é "x"' } } },
    ],
  },
  { role: 'tool', tool_call_id: '1', content: '3' },
  { role: 'tool', tool_call_id: '2', content: { found: [1, 2] } },
  { role: 'assistant', content: 'three' },
];

describe('the chat template of a new model', () => {
  it('writes turns, calls of tools and their results', () => {
    expect(template.render(played)).toBe(
      `<|im_start|>system
Be brief.<|im_end|>
<|im_start|>user
 two spaces  and a break
<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "add", "arguments": {"a":1,  "b":2}}
</tool_call>
<tool_call>
{"name": "find", "arguments": {"text": "é \\"x\\""}}
</tool_call><|im_end|>
<|im_start|>tool
3<|im_end|>
<|im_start|>tool
{"found": [1, 2]}<|im_end|>
<|im_start|>assistant
three<|im_end|>
`,
    );
  });

  it('reads the parts of recorded messages as it reads the fields of chat messages', () => {
    const call = { name: 'add', arguments: { a: 1 } };
    const parts = [
      { role: 'user', content: [{ type: 'text', content: 'one ' }, { type: 'text', text: 'two' }, { type: 'image' }] },
      {
        role: 'assistant',
        content: [
          { type: 'text', content: 'Adding.' },
          { type: 'tool_call', id: '1', ...call },
        ],
      },
    ];
    const fields = [
      { role: 'user', content: 'one two' },
      { role: 'assistant', content: 'Adding.', tool_calls: [{ function: call }] },
    ];
    expect(template.render(parts)).toBe(template.render(fields));
  });

  it('offers tools in the system message, and makes one where there is none', () => {
    const tools = [{ type: 'function', function: { name: 'add' } }];
    const offered = 'Tools:\n{"type": "function", "function": {"name": "add"}}\n';
    const user = { role: 'user', content: 'q' };
    const alone = template.render([user], { tools, addGenerationPrompt: true });
    const led = template.render([{ role: 'system', content: 'S' }, user], { tools, addGenerationPrompt: true });
    expect(alone).toContain(`<|im_start|>system\n${offered}`);
    expect(led).toContain(`<|im_start|>system\nS\n\n${offered}`);
    for (const text of [alone, led]) {
      expect(text.endsWith('<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n')).toBe(true);
      expect(text.split('<|im_start|>system')).toHaveLength(2);
    }
  });

  it('teaches the answers of the model, its calls of tools and end tokens included, and nothing else', () => {
    const { ids, lossMask } = template.maskedIds(played);
    const learnt = tokenizer.decode(ids.filter((_, i) => lossMask[i] === 1));
    const [called, answered] = [played[2]!, played[5]!].map((message) => {
      const text = template.render([message]);
      return text.slice('<|im_start|>assistant\n'.length);
    });
    expect(learnt).toBe(`${called}${answered}`);
    expect(called).toMatch(/^<tool_call>[\s\S]*<\/tool_call><\|im_end\|>\n$/);
  });

  it('writes turns one by one as it writes the whole conversation', () => {
    expect(played.map((message) => template.render([message])).join('')).toBe(template.render(played));
    expect(template.turnEnd).toBe(tokenizer.eos);
  });

  it('begins a longer conversation with the tokens of a shorter one and of the reply to it', () => {
    for (const at of [2, 5]) {
      const { promptIds, tokenIds } = answerRow(played.slice(0, at + 1), template);
      expect(tokenizer.decode(tokenIds).endsWith('<|im_end|>\n')).toBe(true);
      const next = template.promptIds([...played.slice(0, at + 1), { role: 'user', content: 'more' }], {
        addGenerationPrompt: true,
      });
      expect(next.slice(0, promptIds.length + tokenIds.length)).toEqual([...promptIds, ...tokenIds]);
    }
  });
});
