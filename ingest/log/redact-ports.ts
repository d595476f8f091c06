/** The one place that all ingestion passes: log, ledger and artifacts as the rest of Troupe sees them, with the redaction before them. */

import type { Redactor } from '../events/redact.ts';
import type { ArtifactStore, DeadLetter, EventLog, IngestLedger } from './log.ts';

export type Ports = { readonly log: EventLog; readonly book: IngestLedger; readonly artifacts: ArtifactStore };

/**
 * The ports with every event, refused record and body redacted. An endpoint that stores bodies redacts its records before it names
 * bodies by their hash (`Redactor.value`), as import does; here a body that still holds a secret is kept without it.
 */
export function redacting({ log, book, artifacts }: Ports, redactor: Redactor): Ports {
  return {
    log: { ...log, append: (events) => log.append(events.map(redactor.event)) },
    book: {
      ...book,
      report: (report) =>
        book.report({ ...report, rejected: report.rejected.map((letter) => clean(letter, redactor)) }),
    },
    artifacts: { ...artifacts, put: (bodies) => artifacts.put(bodies.map((body) => redactedBytes(body, redactor))) },
  };
}

/** A value quoted in a reason is cut: half of a secret would stay, in no shape that a rule knows. */
function clean(letter: DeadLetter, redactor: Redactor): DeadLetter {
  const raw = redactedBytes(letter.raw, redactor);
  const { field, expected, got } = letter.refusal;
  return {
    ...letter,
    raw: typeof raw === 'string' ? Buffer.from(raw) : raw,
    refusal: {
      ...letter.refusal,
      field: redactor.text(field),
      expected: redactor.text(expected),
      got: raw === letter.raw ? redactor.text(got) : 'not quoted, since a secret was found',
    },
  };
}

/** Bytes that are no UTF-8 are looked at byte for byte: the shapes of secrets are ASCII. */
function redactedBytes<T extends string | Uint8Array>(body: T, redactor: Redactor): T | string | Uint8Array {
  if (typeof body === 'string') return redactor.text(body);
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const utf8 = bytes.toString('utf8');
  const encoding = Buffer.from(utf8, 'utf8').equals(bytes) ? 'utf8' : 'latin1';
  const text = encoding === 'utf8' ? utf8 : bytes.toString('latin1');
  const redacted = redactor.text(text);
  return redacted === text ? body : Buffer.from(redacted, encoding);
}
