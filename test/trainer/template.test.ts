import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { answerRow } from '../../trainer/learn/data/training-rows.ts';
import { chatTemplate, templateSource } from '../../trainer/model/tokens/template.ts';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';
import { openTokenizer, wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';

const words = ['hi', 'there', 'how', 'are', 'you', 'fine', 'thanks', 'assistant', 'user', 'system'];
const tokenizer = openTokenizer(
  wordTokenizer(words, ['<pad>', '<start>', '<end>', '<bos>'], { bos: '<bos>', eos: '<end>' }),
);

const plain = `{{ bos_token }}{% for message in messages %}
<start> {{ message.role }} {{ message.content }} <end>
{% endfor %}{% if add_generation_prompt %}<start> assistant {% endif %}`;

const marked = `{{ bos_token }}{% for message in messages %}
<start> {{ message.role }}
{%- if message.role == 'assistant' %}
  {% generation %} {{ message.content }} <end>{% endgeneration %}
{%- else %} {{ message.content }} <end>{% endif %}
{% endfor %}`;

const talk: ChatMessage[] = [
  { role: 'system', content: 'hi' },
  { role: 'user', content: 'how are you' },
  { role: 'assistant', content: 'fine thanks' },
  { role: 'user', content: 'there' },
  { role: 'assistant', content: 'you' },
];

/** The words a mask lets the model learn. */
const learnt = ({ ids, lossMask }: { ids: readonly number[]; lossMask: Uint8Array }): string =>
  tokenizer.decode(ids.filter((_, i) => lossMask[i] === 1));

const talks = fc.array(
  fc.record({
    role: fc.constantFrom('user', 'assistant', 'system'),
    content: fc.array(fc.constantFrom(...words), { minLength: 1, maxLength: 4 }).map((w) => w.join(' ')),
  }),
  { maxLength: 6 },
);

describe('a chat template', () => {
  it('asks in the words the model was trained with', () => {
    const template = chatTemplate(plain, tokenizer);
    expect(template.promptIds(talk.slice(1, 2))).toEqual(
      tokenizer.encode('<bos> <start> user how are you <end> <start> assistant'),
    );
    expect(template.promptIds(talk.slice(1, 2), {})).toEqual(tokenizer.encode('<bos> <start> user how are you <end>'));
  });

  it.each([
    ['by what each reply adds', plain],
    ['by the generation blocks', marked],
  ])('lets the model learn its own words only, found %s', (_, source) => {
    const masked = chatTemplate(source, tokenizer).maskedIds(talk);
    expect(learnt(masked)).toBe('fine thanks <end> you <end>');
    expect(tokenizer.decode(masked.ids)).toBe(
      '<bos> <start> system hi <end> <start> user how are you <end> <start> assistant fine thanks <end> <start> user there <end> <start> assistant you <end>',
    );
  });

  it.each([plain, marked])('masks without changing the ids of any conversation', (source) => {
    const template = chatTemplate(source, tokenizer);
    fc.assert(
      fc.property(talks, (messages) => {
        const { ids, lossMask } = template.maskedIds(messages);
        expect(ids).toEqual(tokenizer.encode(template.render(messages)));
        expect(lossMask.length).toBe(ids.length);
        const answers = messages.filter((m) => m.role === 'assistant').map((m) => `${m.content} <end>`);
        expect(learnt({ ids, lossMask })).toBe(answers.join(' '));
      }),
    );
  });

  it('cuts a reply where the answer of the model begins', () => {
    const { promptIds, tokenIds } = answerRow(talk.slice(1, 3), chatTemplate(plain, tokenizer));
    expect(promptIds).toEqual(chatTemplate(plain, tokenizer).promptIds(talk.slice(1, 2)));
    expect(tokenizer.decode(tokenIds)).toBe('fine thanks <end>');
  });

  it('keeps private-use characters of a message apart from its own marks', () => {
    const odd = openTokenizer(wordTokenizer([...words, '\ue000'], ['<start>', '<end>', '<bos>'], { bos: '<bos>' }));
    const { ids, lossMask } = chatTemplate(marked, odd).maskedIds([{ role: 'assistant', content: '\ue000 hi' }]);
    expect(odd.decode(ids.filter((_, i) => lossMask[i]))).toBe('\ue000 hi <end>');
  });

  it('cuts a reply out of a byte-level text also where the whole would join the border', () => {
    const vocab: Record<string, number> = { a: 0, b: 1, ab: 2 };
    const joining = openTokenizer({
      tokenizer: {
        normalizer: null,
        pre_tokenizer: null,
        post_processor: null,
        decoder: { type: 'Fuse' },
        model: { type: 'BPE', vocab, merges: ['a b'] },
      },
      config: {},
    });
    const source = '{% for m in messages %}{{ m.content }}{% endfor %}';
    const template = chatTemplate(source, joining);
    expect(joining.encode('ab')).toEqual([2]);
    const chat = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ];
    expect(answerRow(chat, template)).toEqual({ promptIds: [0], tokenIds: [1], trained: [true] });
  });

  it('says so where a template rewrites earlier turns', () => {
    const forgetful = `{% for m in messages %}<start> {{ m.role }} {% if loop.last or m.role != 'assistant' %}{{ m.content }}{% endif %} <end> {% endfor %}{% if add_generation_prompt %}<start> assistant {% endif %}`;
    const template = chatTemplate(forgetful, tokenizer);
    expect(() => template.maskedIds(talk)).toThrow(/message 2 differently/);
    expect(tokenizer.decode(answerRow(talk, template).tokenIds)).toBe('you <end>');
  });

  it('passes on what the template refuses, and does not take one that does not parse', () => {
    const strict = chatTemplate(`{{ raise_exception('only users here') }}`, tokenizer);
    expect(() => strict.render(talk)).toThrow(/refuses these messages: only users here/);
    expect(() => chatTemplate('{% for %}', tokenizer)).toThrow(/does not parse/);
  });

  it('is found in its own file, in the tokenizer configuration, or nowhere', () => {
    expect(templateSource('a', { chat_template: 'b' })).toBe('a');
    expect(templateSource(null, { chat_template: 'b' })).toBe('b');
    expect(
      templateSource(null, {
        chat_template: [
          { name: 'tool', template: 'x' },
          { name: 'default', template: 'y' },
        ],
      }),
    ).toBe('y');
    expect(templateSource(null, {})).toBeNull();
    expect(() => templateSource(null, { chat_template: 5 })).toThrow(/chat_template is 5/);
  });
});
