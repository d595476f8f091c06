export * from '../ingest/recorder/recorder.ts';
