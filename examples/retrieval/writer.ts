/**
 * A strong model, as a server that answers by a script: it writes questions, reads them in the committee, and plays the roles of the retrieval
 * team. It errs: one question in four has an answer that the document does not give, one in six is about nothing, and one in eight repeats the
 * words of the document; a member of the committee overlooks one error in five, and each role of the team answers one call in six at random.
 *
 *   node --import tsx examples/retrieval/writer.ts [--port 9921]
 */
import { serveModel } from '../lib/model-server.ts';
import { createRandom, seedOf } from '../lib/random.ts';
import { DOCUMENTS, OTHER_WORDS } from './documents.ts';

serveModel(({ messages, seed }) => {
  const prompt = messages.at(-1)!.content;
  const random = createRandom(seedOf(seed, prompt));
  const [task, page, field, value, ...rest] = prompt.split(' ');
  if (task === 'write') {
    if (random.next() < 1 / 6) return `${page} ?`;
    const asked = random.next() < 1 / 8 ? field : OTHER_WORDS[field!];
    const answer = random.next() < 1 / 4 ? random.pick(DOCUMENTS).split(' ')[2] : value;
    return `${page} ${asked} ${answer}`;
  }
  if (task !== 'check') {
    const names = Object.entries(OTHER_WORDS);
    const asked = names.find(([, other]) => other === field)?.[0] ?? field;
    const documents = prompt.split(/ Document\d /).slice(1);
    const document = random.next() < 1 / 6 ? random.pick(DOCUMENTS) : `${page} ${asked}`;
    if (task === 'rewrite') return document.split(' ').slice(0, 2).join(' ');
    if (task === 'select')
      return `Document${Math.max(
        0,
        documents.findIndex((one) => one.startsWith(document)),
      )}`;
    return random.next() < 1 / 6 ? random.pick(DOCUMENTS).split(' ')[2]! : (rest.at(-1) ?? value ?? '');
  }
  const isRight = rest[0] === page && rest[2] === value;
  return isRight || random.next() < 1 / 5 ? 'yes' : 'no';
}, 9921);
