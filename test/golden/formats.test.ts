/**
 * Every event that the recorded samples of a format give, compared whole with the text kept beside this file. `npm run golden` writes
 * the texts anew and prints the difference, which is read before it is committed.
 */
import { describe, expect, it } from 'vitest';
import { importFiles } from '../../ingest/files/import.ts';
import { eventsOfTrace } from '../../ingest/formats/traces/live-traces.ts';
import { memoryLog } from '../ingest/support/memory-log.ts';
import { eventText, RECORDED, recordedClients, sampleFolders, withoutSample } from './recorded.ts';

describe('The recorded samples', () => {
  it('are there for every format', () => {
    expect(withoutSample()).toEqual([]);
  });

  it.each(sampleFolders())('of %s give the events that were kept', async (format, folder) => {
    const memory = memoryLog();
    const { errors, ...report } = await importFiles([folder], memory);
    const text = [
      JSON.stringify(report, null, 2),
      ...errors.map((error) => JSON.stringify(error)),
      ...memory.events.map(eventText),
    ]
      .join('\n\n')
      .replaceAll(`${RECORDED}/`, '');
    await expect(`${text}\n`).toMatchFileSnapshot(`formats/${format}.txt`);
  });

  it.each(recordedClients())('of the client %s give the events that were kept', async (client, spans) => {
    const drafts = eventsOfTrace(spans.map((item) => ({ format: 'otlp', item })));
    await expect(`${drafts.map(eventText).join('\n\n')}\n`).toMatchFileSnapshot(`clients/${client}.txt`);
  });
});
