/** Conversations of which no text, thought or argument is chosen to be easy for a template. `TROUPE_SEED` draws others. */
import fc from 'fast-check';
import type { ChatMessage } from '../../trainer/model/tokens/template-messages.ts';

const text = fc.oneof(
  fc.constantFrom(
    'Rome?',
    ' Sun. ',
    '\nRain.\r\n',
    '',
    '  ',
    '"quoted"',
    '😀 é',
    'a\u0000b',
    '\ufffe',
    '\u2028',
    'null',
  ),
  fc.constantFrom(
    'a <think> b',
    '</think>',
    'x </tool_call> y',
    '{{ messages }}',
    '{% raw %}',
    '<|im_start|> no',
    '<eos>',
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
);
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 2 },
    text.filter((one) => !one.includes('\u0000')),
    fc.constantFrom(null, true, 0.5, -7, 1e21, 1e-7),
    fc.array(tie('any'), { maxLength: 2 }),
    fc.dictionary(fc.constantFrom('z', 'a', 'é', 'b c'), tie('any'), { maxKeys: 3 }),
  ),
})).any;

/** As templates write JSON: the Messages dialect gives arguments as objects, which have no spaces of their own. */
function spaced(one: unknown): string {
  if (Array.isArray(one)) return `[${one.map(spaced).join(', ')}]`;
  if (one === null || typeof one !== 'object') return JSON.stringify(one);
  return `{${Object.entries(one)
    .map(([name, member]) => `${JSON.stringify(name)}: ${spaced(member)}`)
    .join(', ')}}`;
}

const turn = fc.record({
  ...{ asks: text, beside: fc.option(text), thinks: fc.option(text), result: text, says: text },
  thought: fc.constantFrom('reasoning', 'reasoning_content'),
  /** Of the calls of each message. */
  calls: fc.array(
    fc.array(fc.dictionary(fc.constantFrom('z', 'city', 'é'), value, { maxKeys: 3 }), { minLength: 1, maxLength: 2 }),
    {
      maxLength: 2,
    },
  ),
});

const conversation = fc
  .record({
    leads: fc.option(fc.tuple(fc.constantFrom('system' as const, 'developer' as const), text)),
    turns: fc.array(turn, { minLength: 1, maxLength: 3 }),
    hasTools: fc.boolean(),
  })
  .map(({ leads, turns, hasTools }): { readonly messages: readonly ChatMessage[]; readonly hasTools: boolean } => {
    let made = 0;
    const messages: ChatMessage[] = leads === null ? [] : [{ role: leads[0], content: leads[1] }];
    for (const { asks, beside, thinks, thought, calls, result, says } of turns) {
      const more = thinks === null ? {} : { [thought]: thinks };
      messages.push({ role: 'user', content: asks });
      for (const some of hasTools ? calls : []) {
        const tool_calls = some.map((one) => ({
          ...{ id: `abcde${1000 + made++}`, type: 'function' },
          function: { name: 'weather', arguments: spaced(one) },
        }));
        messages.push({ role: 'assistant', content: beside, tool_calls, ...more });
        messages.push(...tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: result }) as const));
      }
      messages.push({ role: 'assistant', content: says, ...more });
    }
    return { messages, hasTools };
  });

/** So many of them. */
export const anyConversations = (count: number) =>
  fc.sample(conversation, { numRuns: count, seed: Number(process.env.TROUPE_SEED ?? 1) });
