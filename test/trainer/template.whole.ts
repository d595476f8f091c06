/** A chat template that does not end takes ten seconds of a processor until it is stopped. */
import { expect, it } from 'vitest';
import { chatTemplate } from '../../trainer/model/tokens/template.ts';
import { openTokenizer, wordTokenizer } from '../../trainer/model/tokens/tokenizer.ts';

it('a chat template that goes on without end is stopped, and the next one is rendered', () => {
  const tokenizer = openTokenizer(wordTokenizer(['hi', 'user'], ['<pad>', '<bos>', '<end>'], { eos: '<end>' }));
  const talk = [{ role: 'user', content: 'hi' }];
  const times = (n: number, inside: string): string =>
    n === 0 ? inside : `{% for i in range(1000) %}${times(n - 1, inside)}{% endfor %}`;
  const endless = chatTemplate(times(4, '{% if false %}{% endif %}'), tokenizer);
  expect(() => endless.render(talk)).toThrow(/The chat template refuses these messages: .*timed out/);
  const plain = chatTemplate('{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}', tokenizer);
  expect(plain.render(talk)).toBe('user hi');
}, 60_000);
