/** `troupe/recorder`. In a checkout `dist` is built first. */
import { ensureBuilt } from './build.js';

await ensureBuilt();
export const { createRecorder, envelope, RecorderError } = await import('../dist/ingest/recorder/recorder.js');
